"""Texts of different lengths: padding masks, packed sequences, bags of words."""
import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


class LSTMTagger(nn.Module):
    def __init__(self, vocab_size, dim, tags):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, tags)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embed(text), lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        mask = (text != 0).unsqueeze(-1).float()
        pooled = (out * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.out(pooled + torch.cat([h[-2], h[-1]], dim=1))


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for (_text, _label) in batch:
        label_list.append(_label)
        text_list.append(torch.tensor(_text, dtype=torch.int64))
        offsets.append(text_list[-1].size(0))
    offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
    return torch.cat(text_list), torch.tensor(label_list, dtype=torch.int64), offsets


def main():
    sizes = [3, 5, 2, 4, 6, 1]
    numbers = (abs(draws(1, 30)) * 7).astype("int64") % 9 + 1
    data = [(numbers[i:i + n].tolist(), i % 2) for i, n in enumerate(sizes)]
    loader = DataLoader(data, batch_size=3, shuffle=False, collate_fn=collate_batch)
    bag = filled(TextClassificationModel(10, 4, 2), 1)
    tagger = filled(LSTMTagger(10, 4, 2), 2)
    optimizer = torch.optim.Adagrad([*bag.parameters(), *tagger.parameters()], lr=0.1)
    criterion = nn.CrossEntropyLoss()

    @compiled
    def step(text, label, offsets):
        optimizer.zero_grad()
        loss = criterion(bag(text, offsets), label)
        loss.backward()
        torch.nn.utils.clip_grad_value_(bag.parameters(), 0.1)
        optimizer.step()
        return loss

    @compiled
    def tag(padded, lengths, labels):
        optimizer.zero_grad()
        loss = criterion(tagger(padded, lengths), labels)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(text, label, offsets).item() for _ in range(2) for text, label, offsets in loader]
    padded = pad_sequence([torch.tensor(text) for text, _ in data], batch_first=True)
    lengths = torch.tensor([len(text) for text, _ in data])
    labels = torch.tensor([label for _, label in data])
    losses += [tag(padded, lengths, labels).item() for _ in range(3)]
    return {"losses": losses, "bag": bag.state_dict(), "tagger": tagger.state_dict()}
