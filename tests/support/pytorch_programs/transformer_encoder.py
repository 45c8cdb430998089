"""An encoder with masks: causal, of padding, and nn.Transformer for sequences to sequences."""
import math

import torch
import torch.nn as nn
from support.pytorch_programs import compiled, draws, filled


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.0, max_len: int = 50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer('pe', pe)

    def forward(self, x):
        x = x + self.pe[:x.size(0)]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model, nhead, d_hid, nlayers, dropout=0.0):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout, norm_first=True)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers, enable_nested_tensor=False)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)

    def forward(self, src, src_mask=None, padding=None):
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        output = self.transformer_encoder(src, src_mask, src_key_padding_mask=padding)
        return self.linear(output)


def main():
    model = filled(TransformerModel(12, 8, 2, 16, 2), 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1)
    tokens = torch.from_numpy((draws(5, 7, 3) * 10).astype("int64") % 12)
    targets = torch.roll(tokens, -1, 0)
    lengths = torch.tensor([7, 5, 6])
    padding = torch.arange(7)[None, :] >= lengths[:, None]

    @compiled
    def step(tokens, targets, padding):
        optimizer.zero_grad()
        attention = torch.triu(torch.full((7, 7), float('-inf')), diagonal=1)
        logits = model(tokens, attention, torch.zeros_like(padding, dtype=torch.float32).masked_fill(padding, float("-inf")))
        keep = ~padding.t()
        loss = nn.functional.cross_entropy(logits[keep], targets[keep])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses = [step(tokens, targets, padding).item() for _ in range(3)]
    seq2seq = filled(nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=8, dropout=0.0,
                                    batch_first=True), 4)
    src, tgt = torch.from_numpy(draws(6, 2, 5, 8)).float(), torch.from_numpy(draws(7, 2, 4, 8)).float()
    decode = compiled(lambda src, tgt: seq2seq(src, tgt, tgt_mask=seq2seq.generate_square_subsequent_mask(4)))
    out = decode(src, tgt)
    out.pow(2).sum().backward()
    return {"losses": losses, "weights": model.state_dict(), "out": out.detach(), "grads": [p.grad for p in seq2seq.parameters()]}
