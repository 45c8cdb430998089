"""A classifier of pictures with a DataLoader, as in a first tutorial."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from support.pytorch_programs import compiled, draws, filled
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(64, 32)
        self.dropout = nn.Dropout(0.0)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout(x)
        return F.log_softmax(self.fc2(x), dim=1)


@compiled
def train_batch(args, model, device, data, target, optimizer):
    data, target = data.to(device), target.to(device)
    optimizer.zero_grad()
    output = model(data)
    loss = F.nll_loss(output, target)
    loss.backward()
    optimizer.step()
    return loss


def test(model, device, test_loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction='sum').item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    return test_loss / len(test_loader.dataset), correct


def main():
    args = argparse.Namespace(lr=0.5, epochs=2, gamma=0.7)
    use_cuda = torch.cuda.is_available()
    torch.manual_seed(1)
    device = torch.device("cuda" if use_cuda else "cpu")
    kwargs = {'num_workers': 1, 'pin_memory': True} if use_cuda else {}
    images = torch.from_numpy(draws(0, 48, 1, 8, 8)).float()
    labels = torch.arange(48, dtype=torch.long) % 10
    train_loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=False, **kwargs)
    test_loader = DataLoader(TensorDataset(images[:20], labels[:20]), batch_size=8, **kwargs)
    model = filled(Net(), 1).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=args.gamma)
    losses, tests = [], []
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch_idx, (data, target) in enumerate(train_loader):
            loss = train_batch(args, model, device, data, target, optimizer)
            if batch_idx % 2 == 0:
                losses.append(loss.item())
        tests.append(test(model, device, test_loader))
        scheduler.step()
    return {"losses": losses, "tests": tests, "weights": model.state_dict(), "lr": optimizer.param_groups[0]["lr"]}
