#!/usr/bin/env python3
"""Trains the models of Rookery in plain, eager PyTorch: the other side of bench/vs_pytorch.sh and bench/vs_ddp.sh.

Written the way a good engineer would write it: fused projections, no work inside the step that could be outside,
the optimizer's multi-tensor path. Prints one JSON object: median step time, losses, peak memory.
"""

import argparse
import json
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, causal, context):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x, lengths=None):
        b, t, d = x.shape
        q, k, v = self.project(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mask = self.mask[:t, :t] if self.causal else padding_mask(lengths, t)
        return self.out(attend(q, k, v, mask).transpose(1, 2).reshape(b, t, d))


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, source, lengths):
        b, t, d = x.shape
        s = source.shape[1]
        q = self.queries(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
        k, v = self.keys_values(source).view(b, s, 2, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(attend(q, k, v, padding_mask(lengths, s)).transpose(1, 2).reshape(b, t, d))


def padding_mask(lengths, t):
    if lengths is None:
        return None
    return (torch.arange(t).unsqueeze(0) >= lengths.unsqueeze(1)).view(-1, 1, 1, t)


def attend(q, k, v, mask):
    scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads, causal, context, activation):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal, context)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), activation(), nn.Linear(4 * width, width))

    def forward(self, x, lengths=None):
        x = x + self.attention(self.norm1(x), lengths)
        return x + self.feed_forward(self.norm2(x))


class DecoderBlock(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, True, context)
        self.cross = CrossAttention(width, heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x, source, lengths):
        x = x + self.attention(self.norm1(x))
        x = x + self.cross(self.norm2(x), source, lengths)
        return x + self.feed_forward(self.norm3(x))


class Transformer(nn.Module):
    """gpt if causal, else bert; the head is tied to the embedding."""

    def __init__(self, a, causal):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(a.vocabulary, a.width), nn.Embedding(a.context, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads, causal, a.context, nn.GELU) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                scale = 1 / math.sqrt(2 * a.layers) if name.endswith(("out.weight", "feed_forward.2.weight")) else 1
                nn.init.normal_(p, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class Seq2Seq(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocabulary, a.width)
        self.source_positions = nn.Embedding(a.context, a.width)
        self.target_positions = nn.Embedding(a.context, a.width)
        self.encoder = nn.ModuleList(Block(a.width, a.heads, False, 1, nn.ReLU) for _ in range(a.layers))
        self.encoder_norm, self.norm = nn.LayerNorm(a.width), nn.LayerNorm(a.width)
        self.decoder = nn.ModuleList(DecoderBlock(a.width, a.heads, a.context) for _ in range(a.layers))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, source, target, lengths):
        x = self.tokens(source) + self.source_positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, lengths)
        x = self.encoder_norm(x)
        y = self.tokens(target) + self.target_positions.weight[: target.shape[1]]
        for block in self.decoder:
            y = block(y, x, lengths)
        return F.linear(self.norm(y), self.tokens.weight)


def convolution(i, o, kernel, stride=1, padding=0):
    return nn.Sequential(nn.Conv2d(i, o, kernel, stride, padding, bias=False), nn.BatchNorm2d(o))


class Residual(nn.Module):
    def __init__(self, i, width, stride, bottleneck):
        super().__init__()
        o = 4 * width if bottleneck else width
        relu = nn.ReLU(inplace=True)
        if bottleneck:
            self.path = nn.Sequential(convolution(i, width, 1), relu, convolution(width, width, 3, stride, 1), relu,
                                      convolution(width, o, 1))
        else:
            self.path = nn.Sequential(convolution(i, width, 3, stride, 1), relu, convolution(width, o, 3, 1, 1))
        self.shortcut = convolution(i, o, 1, stride) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu_(self.path(x).add_(self.shortcut(x)))


def resnet(blocks, bottleneck, width=64, channels=3, classes=10):
    layers, i = [convolution(channels, width, 3, 1, 1), nn.ReLU(inplace=True)], width
    for group, count in enumerate(blocks):
        for n in range(count):
            layers.append(Residual(i, width << group, 2 if group > 0 and n == 0 else 1, bottleneck))
            i = (width << group) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, classes))


def vgg16(width=64, channels=3, classes=10):
    layers, i = [], channels
    for group, count in enumerate([2, 2, 3, 3, 3]):
        o = min(width << group, 8 * width)
        for _ in range(count):
            layers += [convolution(i, o, 3, 1, 1), nn.ReLU(inplace=True)]
            i = o
        layers.append(nn.MaxPool2d(2))
    dense = [nn.Flatten(), nn.Linear(i, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *dense, nn.Linear(512, classes))


def cnn(channels=3, size=32, classes=10):
    def stage(i, o):
        return [convolution(i, o, 3, 1, 1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    flat = 64 * (size // 4) ** 2
    return nn.Sequential(*stage(channels, 32), *stage(32, 64), nn.Flatten(), nn.Linear(flat, 128),
                         nn.ReLU(inplace=True), nn.Linear(128, classes))


def mlp(channels=3, size=32, width=256, classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, width), nn.ReLU(inplace=True),
                         nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, classes))


def build(a):
    """The model, and a function that makes a batch: (inputs, targets)."""
    def ids(length):
        return torch.randint(a.vocabulary, (a.batch, length))

    if a.model in ("gpt", "bert"):
        def text():
            targets = ids(a.context)
            if a.model == "bert":
                targets[torch.rand(targets.shape) > 0.15] = -100
            return (ids(a.context),), targets
        return Transformer(a, a.model == "gpt"), text
    if a.model == "seq2seq":
        lengths = torch.full((a.batch,), a.source)
        return Seq2Seq(a), lambda: ((ids(a.source), ids(a.target), lengths), ids(a.target))
    models = {"mlp": mlp, "cnn": cnn, "resnet18": lambda: resnet([2, 2, 2, 2], False),
              "resnet50": lambda: resnet([3, 4, 6, 3], True), "vgg16": vgg16}
    return models[a.model](), lambda: ((torch.randn(a.batch, 3, 32, 32),), torch.randint(10, (a.batch,)))


def text_batches(a):
    """Windows of a text file's first 90% as bytes, and the fixed evaluation windows of the next 5%."""
    data = torch.frombuffer(bytearray(open(a.text, "rb").read()), dtype=torch.uint8).long()
    n = len(data)
    train, held_out = data[: n * 90 // 100], data[n * 90 // 100: n * 95 // 100]

    def windows(source, starts):
        rows = torch.stack([source[s: s + a.context + 1] for s in starts])
        return (rows[:, :-1].contiguous(),), rows[:, 1:].contiguous()

    def sample():
        return windows(train, torch.randint(len(train) - a.context - 1, (a.batch,)).tolist())

    starts = list(range(0, len(held_out) - a.context - 1, a.context))[: a.eval_samples]
    return sample, [windows(held_out, starts[i: i + a.batch]) for i in range(0, len(starts), a.batch)]


def loss_of(model, inputs, targets):
    logits = model(*inputs)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def learning_rate(a, step):
    if step < a.warmup:
        return a.lr * (step + 1) / a.warmup
    done = (step + 1 - a.warmup) / max(1, a.steps - a.warmup)
    return a.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def peak_memory():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="gpt")
    for name, value in dict(layers=4, width=128, heads=4, context=128, vocabulary=256, batch=16, source=32, target=32,
                            steps=12, threads=1, warmup=0, seed=1, eval_samples=128).items():
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--text", help="learn this file by bytes, and evaluate")
    p.add_argument("--peers", type=int, default=1, help="with DistributedDataParallel over Gloo, as MASTER_ADDR says")
    p.add_argument("--rank", type=int, default=0)
    a = p.parse_args()

    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    model, sample = build(a)
    held_out = []
    if a.text:
        sample, held_out = text_batches(a)
    if a.peers > 1:
        torch.distributed.init_process_group("gloo", rank=a.rank, world_size=a.peers)
        torch.manual_seed(a.seed + a.rank)  # the model is rank 0's; the samples are its own
        ddp = nn.parallel.DistributedDataParallel
        # Gloo cannot send booleans, and the masks are constant.
        ddp._set_params_and_buffers_to_ignore_for_model(model, [name for name, _ in model.named_buffers()])
        model = ddp(model, gradient_as_bucket_view=True)
    decayed = [q for q in model.parameters() if q.dim() > 1]
    others = [q for q in model.parameters() if q.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                                  lr=a.lr, foreach=True)
    seconds, losses = [], []
    for step in range(a.steps):
        inputs, targets = sample()
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(a, step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    model.eval()
    with torch.no_grad():
        evaluation = [loss_of(model, *batch).item() for batch in held_out]
    steady = sorted(seconds[min(3, len(seconds) - 1):])
    print(json.dumps({"step_seconds": steady[len(steady) // 2], "final_loss": losses[-1],
                      "eval_loss": sum(evaluation) / len(evaluation) if evaluation else None,
                      "parameters": sum(q.numel() for q in model.parameters()), "peak_memory_bytes": peak_memory()}))


if __name__ == "__main__":
    main()
