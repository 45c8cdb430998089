"""DQN with masks of the last states, REINFORCE and PPO with distributions."""
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from support.pytorch_programs import compiled, draws, filled
from torch.distributions import Categorical, Normal

Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 8)
        self.layer3 = nn.Linear(8, n_actions)

    def forward(self, x):
        return self.layer3(F.relu(self.layer1(x)))


def main():
    BATCH_SIZE, GAMMA, TAU = 8, 0.99, 0.005
    policy_net, target_net = filled(DQN(4, 2), 1), DQN(4, 2)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
    memory = ReplayMemory(100)
    for i in range(8):
        state, after = (torch.tensor(draws(10 * i + k, 4), dtype=torch.float32).unsqueeze(0) for k in range(2))
        memory.push(state, torch.tensor([[i % 2]], dtype=torch.long), after if i % 3 else None, torch.tensor([0.1 * i]))
    batch = Transition(*zip(*list(memory.memory)[:BATCH_SIZE]))

    @compiled
    def optimize_model(states, actions, rewards, non_final_mask, non_final_next_states):
        state_action_values = policy_net(states).gather(1, actions)
        next_state_values = torch.zeros(BATCH_SIZE)
        with torch.no_grad():
            next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
        expected = (next_state_values * GAMMA) + rewards
        loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        return loss

    losses = []
    for _ in range(3):
        non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
        losses.append(optimize_model(torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward), non_final_mask,
                                     non_final_next_states).item())
        target_dict, policy_dict = target_net.state_dict(), policy_net.state_dict()
        for key in policy_dict:
            target_dict[key] = policy_dict[key] * TAU + target_dict[key] * (1 - TAU)
        target_net.load_state_dict(target_dict)

    actor, critic = filled(DQN(4, 3), 3), filled(DQN(4, 1), 4)
    ppo = optim.Adam([{'params': actor.parameters(), 'lr': 3e-3}, {'params': critic.parameters(), 'lr': 1e-3}])
    states = torch.from_numpy(draws(5, 12, 4)).float()
    with torch.no_grad():
        sampled = Categorical(logits=actor(states)).sample()
        assert sampled.shape == (12,) and int(sampled.max()) < 3
        actions = torch.arange(12) % 3
        old = Categorical(logits=actor(states)).log_prob(actions)
    rewards = []
    discounted = 0
    for reward in reversed([1.0, 0.0, 0.5] * 4):
        discounted = reward + GAMMA * discounted
        rewards.insert(0, discounted)
    rewards = torch.tensor(rewards, dtype=torch.float32)
    rewards = (rewards - rewards.mean()) / (rewards.std() + 1e-7)

    @compiled
    def update(states, actions, old, rewards):
        dist = Categorical(F.softmax(actor(states), dim=-1))
        values = critic(states).squeeze(-1)
        ratios = torch.exp(dist.log_prob(actions) - old.detach())
        advantages = rewards - values.detach()
        surr1, surr2 = ratios * advantages, torch.clamp(ratios, 0.8, 1.2) * advantages
        loss = -torch.min(surr1, surr2) + 0.5 * F.mse_loss(values, rewards) - 0.01 * dist.entropy()
        ppo.zero_grad()
        loss.mean().backward()
        ppo.step()
        return loss.mean()

    losses += [update(states, actions, old, rewards).item() for _ in range(3)]
    normal = Normal(torch.zeros(3), torch.ones(3))
    draw = torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 4, replacement=True)
    return {"losses": losses, "policy": policy_net.state_dict(), "actor": actor.state_dict(), "draw": draw,
            "log_prob": normal.log_prob(torch.tensor([0.0, 1.0, -2.0])).sum(), "entropy": normal.entropy()}
