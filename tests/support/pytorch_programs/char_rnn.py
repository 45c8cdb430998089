"""Recurrent language models of characters whose state is carried from batch to batch."""
import torch
from support.pytorch_programs import compiled, draws, filled
from torch import nn


class RNNModel(nn.Module):
    """Container module with an encoder, a recurrent module, and a decoder."""

    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.0):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ['LSTM', 'GRU']:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity='tanh', dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.ntoken, self.rnn_type, self.nhid, self.nlayers = ntoken, rnn_type, nhid, nlayers
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == 'LSTM':
            return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def main():
    text = torch.from_numpy((draws(0, 100) * 5).astype("int64") % 11)
    results = {}
    for rnn_type in ['LSTM', 'GRU', 'RNN_TANH']:
        model = filled(RNNModel(rnn_type, 11, 6, 8, 2), 1)
        source = batchify(text, 4)
        criterion = nn.NLLLoss()
        hidden = model.init_hidden(4)
        lr = 0.5
        bptt = 6

        @compiled
        def step(data, targets, hidden, model=model):
            model.zero_grad()
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(p.grad, alpha=-lr)
            return loss, repackage_hidden(hidden)

        total_loss, losses = 0., []
        for i in range(0, source.size(0) - 1 - bptt, bptt):
            seq_len = min(bptt, len(source) - 1 - i)
            loss, hidden = step(source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1), hidden)
            total_loss += loss.item()
            losses.append(loss.item())
        results[rnn_type] = {"losses": losses, "hidden": hidden, "total": total_loss, "weights": model.state_dict()}
    return results
