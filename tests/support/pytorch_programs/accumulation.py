"""Gradients accumulated over small batches, within a step and around it, with a custom dataset."""
import torch
from support.pytorch_programs import compiled, draws, filled
from torch.utils.data import DataLoader, Dataset, random_split


class Points(Dataset):
    def __init__(self, n):
        self.x = draws(1, n, 4).astype("float32")
        self.y = self.x.sum(1, keepdims=True) ** 2

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        return {"x": torch.from_numpy(self.x[idx]), "y": torch.from_numpy(self.y[idx]), "index": idx}


def main():
    dataset = Points(20)
    train, val = random_split(dataset, [16, 4])
    assert len(train) == 16 and len(val) == 4
    loader = DataLoader(torch.utils.data.Subset(dataset, range(16)), batch_size=4, drop_last=True)
    model = filled(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)), 2)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    loss_fn = torch.nn.MSELoss()
    accumulation_steps = 2

    @compiled
    def forward_backward(batch):
        loss = loss_fn(model(batch["x"]), batch["y"]) / accumulation_steps
        loss.backward()
        return loss

    losses, running_loss = [], 0.0
    for epoch in range(2):
        optimizer.zero_grad()
        for i, batch in enumerate(loader):
            running_loss += forward_backward(batch).item()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
                losses.append(running_loss)

    @compiled
    def whole(x, y):
        optimizer.zero_grad()
        running_loss = 0.0
        for micro_x, micro_y in zip(x.chunk(4), y.chunk(4)):
            loss = loss_fn(model(micro_x), micro_y) / 4
            loss.backward()
            running_loss += loss.item()
        optimizer.step()
        return running_loss

    x, y = torch.from_numpy(dataset.x[:16]), torch.from_numpy(dataset.y[:16])
    losses += [whole(x, y) for _ in range(3)]
    return {"losses": losses, "weights": model.state_dict()}
