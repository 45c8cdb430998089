"""GCN and GAT on a graph: scatter operations, masks of nodes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from support.pytorch_programs import compiled, draws, filled


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        n = x.size(0)
        loop = torch.arange(n, device=x.device).unsqueeze(0).repeat(2, 1)
        edge_index = torch.cat([edge_index, loop], dim=1)
        row, col = edge_index
        deg = torch.zeros(n, dtype=x.dtype).scatter_add_(0, col, torch.ones(col.numel()))
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float('inf')] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        x = self.lin(x)
        out = torch.zeros_like(x).index_add(0, col, norm.view(-1, 1) * x[row])
        return out + self.bias


class GATConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.att = nn.Parameter(torch.empty(1, 2 * o))
        nn.init.xavier_uniform_(self.att, gain=nn.init.calculate_gain('relu'))

    def forward(self, x, edge_index):
        row, col = edge_index
        h = self.lin(x)
        alpha = F.leaky_relu((torch.cat([h[row], h[col]], dim=-1) * self.att).sum(dim=-1), 0.2)
        largest = torch.full((x.size(0),), float("-inf")).scatter_reduce(0, col, alpha.detach(), reduce="amax", include_self=True)
        alpha = (alpha - largest[col]).exp()
        total = torch.zeros(x.size(0)).scatter_add(0, col, alpha)
        alpha = alpha / (total[col] + 1e-16)
        return torch.zeros(x.size(0), h.size(1)).scatter_add(0, col.unsqueeze(-1).expand(-1, h.size(1)), alpha.unsqueeze(-1) * h[row])


class Net(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv1, self.conv2 = conv(4, 6), conv(6, 3)

    def forward(self, data):
        x, edge_index = data["x"], data["edge_index"]
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.5, training=False)
        return F.log_softmax(self.conv2(x, edge_index), dim=1)


def main():
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 2, 6, 0], [1, 0, 2, 1, 4, 3, 2, 5, 0, 6]], dtype=torch.long)
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    train_mask = torch.tensor([True, True, True, False, True, False, True])
    data = {"x": torch.from_numpy(draws(1, 7, 4)).float(), "edge_index": edges}
    results = {}
    for conv in (GCNConv, GATConv):
        model = filled(Net(conv), 1)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

        @compiled
        def train(model=model, optimizer=optimizer):
            model.train()
            optimizer.zero_grad()
            out = model(data)
            loss = F.nll_loss(out[train_mask], y[train_mask])
            loss.backward()
            optimizer.step()
            return loss

        @compiled
        def test(model=model):
            model.eval()
            pred = model(data).argmax(dim=1)
            correct = (pred[~train_mask] == y[~train_mask]).sum()
            return int(correct) / int((~train_mask).sum())

        losses, accuracies = [], []
        for _ in range(3):
            losses.append(float(train()))
            accuracies.append(test())
        results[conv.__name__] = {"losses": losses, "accuracies": accuracies, "weights": model.state_dict()}
    return results
