"""A U-Net with bilinear upsampling and a Dice loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True)
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes, bilinear):
        super().__init__()
        factor = 2 if bilinear else 1
        self.inc = DoubleConv(n_channels, 4)
        self.down = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8 // factor))
        self.up = Up(8, 4, bilinear)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down(x1)
        return self.outc(self.up(x2, x1))


def dice_loss(input, target, epsilon=1e-6):
    inter = 2 * (input * target).sum(dim=(-1, -2))
    sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return 1 - ((inter + epsilon) / (sets_sum + epsilon)).mean()


def main():
    results = {}
    for bilinear in (True, False):
        net = filled(UNet(1, 2, bilinear), 1)
        net = net.to(memory_format=torch.channels_last)
        optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, eps=1e-3, foreach=True)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', patience=0)
        images = torch.as_tensor(draws(1, 2, 1, 9, 9)).float().contiguous().to(memory_format=torch.channels_last)
        masks = (torch.as_tensor(draws(2, 2, 9, 9)) > 0).long()

        @compiled
        def step(images, true_masks, net=net, optimizer=optimizer):
            masks_pred = net(images)
            loss = F.cross_entropy(masks_pred, true_masks)
            loss = loss + dice_loss(F.softmax(masks_pred, dim=1).float(), F.one_hot(true_masks, 2).permute(0, 3, 1, 2).float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss

        losses = []
        for _ in range(3):
            losses.append(step(images, masks).item())
            scheduler.step(losses[-1])
        results[f"bilinear {bilinear}"] = {"losses": losses, "state": net.state_dict(), "lr": optimizer.param_groups[0]["lr"]}
    return results
