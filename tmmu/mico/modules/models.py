"""MiCo's module of this name (004): the networks of the document's table, for `import torch`. spec: MC8.9

Sizes are those of `tmmu.examples.mico`, which are the same networks as ONNX; weights are random, as usual in torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from tmmu.mico.quantization import bits_of


class MiCoModel(nn.Module):
    """A network with a number of bits for each layer, which apply to the C code: `forward` computes in float32."""

    qscheme: Sequence[Sequence[int]]

    @property
    def n_layers(self) -> int:
        """The number of convolutions and linear layers."""
        return sum(isinstance(module, (nn.Conv2d, nn.Linear)) for module in self.modules())

    def set_qscheme(self, qscheme: Sequence[Sequence[int]]) -> None:
        """Set the bits of weights and of activations, a list each. Raises INVALID_BINDING for bits without a kernel."""
        bits_of(qscheme, self.n_layers)
        self.qscheme = qscheme


class MLP(MiCoModel):
    """Linear layers of the widths `config["Layers"]`, with ReLU between."""

    def __init__(self, in_features: int, config: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        widths = [in_features, *config["Layers"]]
        parts: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            parts += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.layers = nn.Sequential(*parts[:-1])

    def forward(self, x: torch.Tensor) -> Any:
        """Compute the network on [1, in_features], or an image with that number of pixels."""
        return self.layers(torch.flatten(x, 1))


class LeNet(MiCoModel):
    """Two convolutions of 5x5 with average pooling, two hidden layers, ten classes; images of 28x28."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2, 2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2, 2), nn.Flatten(),
            nn.Linear(400, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> Any:
        """Compute the network on [1, in_channels, 28, 28]."""
        return self.layers(x)


class VGG(MiCoModel):
    """Four convolutions of 3x3 with batch normalization, two hidden layers of 4,096 with dropout; images of 32x32."""

    def __init__(self, in_channels: int, num_class: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for inputs, outputs, pooled in ((in_channels, 64, True), (64, 128, True), (128, 256, False), (256, 256, True)):
            parts += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
            parts += [nn.MaxPool2d(2, 2)] * pooled
        parts.append(nn.Flatten())
        for _ in range(2):
            parts += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()]
        self.layers = nn.Sequential(*parts, nn.Linear(4096, num_class))

    def forward(self, x: torch.Tensor) -> Any:
        """Compute the network on [1, in_channels, 32, 32]."""
        return self.layers(x)
