"""The networks of the learned agents, as flax modules: shapes and nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn


class PatchConv(nn.Module):
    """A 3 x 3 convolution, "same" padding: float32 (..., H, W, C) -> (..., H / stride, W / stride, features).

    Written as nine shifted pictures and one matrix product: inside a loop, XLA's CPU compiler runs a convolution
    ten to twenty times slower than that.
    """

    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, pictures: jax.Array) -> jax.Array:
        """See the class."""
        height, width = pictures.shape[-3:-1]
        rows, columns = -(-height // self.stride), -(-width // self.stride)
        padding = [(0, 0)] * pictures.ndim
        for axis, (size, count) in ((-3, (height, rows)), (-2, (width, columns))):
            missing = max(0, (count - 1) * self.stride + 3 - size)
            padding[axis] = (missing // 2, missing - missing // 2)
        padded = jnp.pad(pictures, padding)
        taps = [
            padded[
                ...,
                y : y + (rows - 1) * self.stride + 1 : self.stride,
                x : x + (columns - 1) * self.stride + 1 : self.stride,
                :,
            ]
            for y in range(3)
            for x in range(3)
        ]
        convolved: jax.Array = nn.Dense(self.features)(jnp.concatenate(taps, axis=-1))
        return convolved


class ReaderNetwork(nn.Module):
    """Reads one digit: float32 (..., 28, 28, 2), stroke and revealed shares -> logits (..., num_classes)."""

    channels: tuple[int, ...] = (32, 64, 128)
    strides: tuple[int, ...] = (2, 2, 2)
    hidden: int = 128
    num_classes: int = 10

    @nn.compact
    def __call__(self, shares: jax.Array) -> jax.Array:
        """See the class."""
        features = shares
        for channels, stride in zip(self.channels, self.strides, strict=True):
            features = nn.relu(PatchConv(channels, stride)(features))
        features = features.reshape(*features.shape[:-3], -1)
        features = nn.relu(nn.Dense(self.hidden)(features))
        logits: jax.Array = nn.Dense(self.num_classes)(features)
        return logits


class ActorCritic(nn.Module):
    """Where to look next: float32 (..., features) -> logits of the four moves (..., 4) and a value (...).

    The last four features are a planner's preferences. What is learned is added to them, so that an untrained network
    already explores as the planner does.
    """

    hidden: tuple[int, ...] = (128, 64)

    @nn.compact
    def __call__(self, features: jax.Array) -> tuple[jax.Array, jax.Array]:
        """See the class."""
        actor = critic = features
        for size in self.hidden:
            actor, critic = nn.tanh(nn.Dense(size)(actor)), nn.tanh(nn.Dense(size)(critic))
        change = nn.Dense(4, kernel_init=nn.initializers.normal(0.01))(actor)
        trust = self.param("trust", nn.initializers.ones, (), jnp.float32)
        return trust * features[..., -4:] + change, nn.Dense(1)(critic)[..., 0]


class GlimpseNetwork(nn.Module):
    """One glimpse as a vector: what was seen, float32 (..., P), and where, float32 (..., L) -> (..., features)."""

    glimpse_hidden: int = 128
    location_hidden: int = 64
    features: int = 256

    @nn.compact
    def __call__(self, glimpse: jax.Array, location: jax.Array) -> jax.Array:
        """See the class."""
        what = nn.relu(nn.Dense(self.glimpse_hidden)(glimpse))
        where = nn.relu(nn.Dense(self.location_hidden)(location))
        joined: jax.Array = nn.relu(nn.Dense(self.features)(jnp.concatenate([what, where], axis=-1)))
        return joined


class RecurrentAttention(nn.Module):
    """The recurrent attention model of Mnih et al. 2014 on the moves of MNIST-PRO.

    glimpse network -> core (a GRU) -> action network (the answer), location network (the move), baseline. The
    last two see the core through a stopped gradient: the core is trained by reading alone.
    """

    num_classes: int = 10
    core_size: int = 256
    glimpse_hidden: int = 128
    location_hidden: int = 64
    policy_hidden: int = 64

    @nn.compact
    def __call__(
        self, core: jax.Array, glimpse: jax.Array, location: jax.Array, beside: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """(core (..., core_size), answer's logits (..., classes), moves' logits (..., 4), baseline (...)).

        core: float32 (..., core_size), of the digit looked at. glimpse: float32 (..., P). location: float32 (..., 3).
        beside: float32 (..., 2), the largest doubts about digits to its left and to its right.
        """
        features = GlimpseNetwork(
            self.glimpse_hidden, self.location_hidden, self.core_size, name="glimpse_network"
        )(glimpse, location)
        core, _ = nn.GRUCell(self.core_size, name="core")(core, features)
        answer = nn.Dense(self.num_classes, name="action_network")(core)
        # The belief itself helps to decide where to look.
        belief = nn.softmax(answer)
        doubt = jnp.log10(jnp.maximum(1 - jnp.max(belief, axis=-1, keepdims=True), 1e-4)) / 2 + 1
        state = jnp.concatenate([core, belief, doubt, beside, location], axis=-1)
        state = jax.lax.stop_gradient(state)
        planned = nn.tanh(nn.Dense(self.policy_hidden, name="location_hidden")(state))
        moves = nn.Dense(4, kernel_init=nn.initializers.normal(0.01), name="location_network")(planned)
        # Without it, it is chance whether an untrained policy ever finds the way to a digit on either side.
        pull = self.param("pull", nn.initializers.constant(2.0), (), jnp.float32)
        sideways = pull * jax.lax.stop_gradient(nn.relu(beside - doubt))
        moves = moves + jnp.concatenate([jnp.zeros_like(sideways), sideways], axis=-1)  # in the order of Kind
        baseline = nn.tanh(nn.Dense(self.policy_hidden, name="baseline_hidden")(state))
        baseline = nn.Dense(1, name="baseline")(baseline)[..., 0]
        return core, answer, moves, baseline
