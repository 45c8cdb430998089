"""A convolutional net with BatchNorm, training and evaluation in one step function."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled


class LeNet(nn.Module):
    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3),
            nn.BatchNorm2d(8),
            nn.LeakyReLU(0.1, inplace=True),
            nn.AvgPool2d(2),
        )
        self.drop = nn.Dropout2d(p=0.0)
        self.classifier = nn.Linear(8 * 2 * 2, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.features(x))
        x = F.relu(x, inplace=True)
        return self.classifier(x.view(x.size(0), -1))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
        self.train_step = compiled(self._train_step)
        self.eval_step = compiled(self._eval_step)

    def _train_step(self, images, labels):
        self.model.train()
        outputs = self.model(images)
        loss = self.criterion(outputs, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _eval_step(self, images, labels):
        self.model.eval()
        logits = self.model(images)
        accuracy = (logits.argmax(1) == labels).float().mean()
        return self.criterion(logits, labels), accuracy


def main():
    model = filled(LeNet(), 2)
    trainer = Trainer(model, 0.05)
    images = torch.tensor(draws(3, 8, 1, 12, 12), dtype=torch.float32)
    labels = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7])
    history = {"train": [], "val": [], "acc": []}
    for epoch in range(3):
        for i in range(2):
            loss = trainer.train_step(images[4 * i:4 * i + 4], labels[4 * i:4 * i + 4])
            history["train"].append(loss.item())
        val, acc = trainer.eval_step(images, labels)
        history["val"].append(val.item())
        history["acc"].append(acc.item())
    return {**history, "state": model.state_dict()}
