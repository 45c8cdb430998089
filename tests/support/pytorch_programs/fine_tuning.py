"""A net that is frozen, gets a new head, and is unfrozen."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(4, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


def main():
    model = filled(Backbone(), 1)
    for param in model.parameters():
        param.requires_grad = False
    num_ftrs = model.fc.in_features
    model.fc = filled(nn.Linear(num_ftrs, 2), 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.from_numpy(draws(1, 6, 1, 5, 5)).float(), torch.tensor([0, 1, 0, 1, 1, 0])

    @compiled
    def step(optimizer, x, y):
        optimizer.zero_grad()
        with torch.set_grad_enabled(True):
            outputs = model(x)
            _, preds = torch.max(outputs, 1)
            loss = criterion(outputs, y)
            loss.backward()
            optimizer.step()
        return loss, torch.sum(preds == y.data)

    record = []
    for _ in range(2):
        loss, right = step(optimizer, x, y)
        record += [loss.item(), right.item()]
    frozen = [p.grad is None for p in model.conv1.parameters()]
    model.requires_grad_(True)
    model.bn1.eval()
    optimizer.add_param_group({"params": model.conv1.parameters(), "lr": 0.01})
    for _ in range(2):
        loss, right = step(optimizer, x, y)
        record += [loss.item(), right.double().item() / len(y)]
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"record": record, "frozen": frozen, "trainable": trainable, "state": model.state_dict()}
