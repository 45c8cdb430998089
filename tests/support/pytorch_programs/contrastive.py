"""InfoNCE, CLIP and triplets."""
import numpy as np
import torch
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled
from torch import nn


def info_nce_loss(features, n_views=2, temperature=0.07):
    batch = features.shape[0] // n_views
    labels = torch.cat([torch.arange(batch) for i in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    labels = torch.zeros(logits.shape[0], dtype=torch.long)
    return logits / temperature, labels


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.logit_scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))

    def forward(self, image, text):
        image_features, text_features = self.visual(image), self.text(text)
        image_features = image_features / image_features.norm(dim=1, keepdim=True)
        text_features = text_features / text_features.norm(dim=1, keepdim=True)
        logit_scale = self.logit_scale.exp()
        logits_per_image = logit_scale * image_features @ text_features.t()
        return logits_per_image, logits_per_image.t()


def main():
    encoder = filled(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), 1)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss()

    @compiled
    def step(images):
        features = encoder(images)
        logits, labels = info_nce_loss(features)
        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    images = torch.from_numpy(draws(1, 8, 6)).float()
    losses = [step(images).item() for _ in range(3)]
    clip = CLIP()
    scale = clip.logit_scale.item()
    filled(clip, 2)
    clip_optimizer = torch.optim.SGD(clip.parameters(), lr=0.1)

    @compiled
    def clip_step(image, text):
        clip_optimizer.zero_grad()
        logits_per_image, logits_per_text = clip(image, text)
        labels = torch.arange(len(image), device=image.device)
        loss = (F.cross_entropy(logits_per_image, labels) + F.cross_entropy(logits_per_text, labels)) / 2
        loss.backward()
        clip_optimizer.step()
        with torch.no_grad():
            clip.logit_scale.clamp_(0, np.log(100))
        return loss

    losses += [clip_step(images, torch.from_numpy(draws(2, 8, 5)).float()).item() for _ in range(3)]
    triplet = nn.TripletMarginLoss(margin=1.0, p=2)
    anchor, positive, negative = (encoder(torch.from_numpy(draws(i, 5, 6)).float()) for i in range(3))
    losses.append(triplet(anchor, positive, negative).item())
    losses.append(F.cosine_embedding_loss(anchor, positive, torch.tensor([1, -1, 1, -1, 1])).item())
    return {"losses": losses, "scale": scale, "dtype": str(clip.logit_scale.dtype) in ("torch.float32", "float32"),
            "weights": encoder.state_dict(), "clip": clip.state_dict()}
