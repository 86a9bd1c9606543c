"""Train RAM as published (Mnih et al. 2014) on grey MNIST, translated MNIST and cluttered translated MNIST.

The hybrid loss of section 3 of the paper: cross entropy trains everything up to the class, REINFORCE trains the
location network. Two things are ours throughout: the cross entropy is taken after every glimpse, and the location's
mean has a hidden layer. What REINFORCE is given is a choice (``RamConfig.credit``):

- ``final``, as published: 1 for the right class at the end, less a learned baseline, for every location.
- ``mirrored``, ours: a location is drawn at mean + noise and answers for the next reading alone. Its baseline is the
  reading that the same memory would have made at mean - noise, so that all that the two share, the picture, the memory
  and the start, cancels, and what is left is what the place was worth. It costs a second forward pass without gradient.

Pictures are made on the device.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from baselines.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SMOOTHING, Range, check_fields
from baselines.held_out import HELD_OUT, on_device, split
from baselines.optimisers import Averaged, adamw_cosine
from mnistpro_jax.agents.learned.ram import RecurrentAttentionModel, box_means, glimpse_sensor
from mnistpro_jax.data import Dataset
from mnistpro_jax.rollouts.sharding import split_batch

CREDITS = ("final", "mirrored")
WORST = 5.0  # nats; a reading that is more wrong than this is not held against a location any further


@dataclasses.dataclass(frozen=True)
class RamConfig:
    """canvas: side of the picture, 28 for the digit itself. clutter: pieces of other digits, 8 x 8. shift: largest
    random displacement of a 28-pixel digit while training. glimpse, scales, glimpses: of the sensor. noise: standard
    deviation of a location while training, where the picture is 2 wide. credit: what a location answers for, ``final``
    or ``mirrored``. aims_by_sight: the location network reads the glimpse beside the core. Raises ValueError for a
    value out of range."""

    canvas: int = 28
    clutter: int = 0
    shift: int = 1
    glimpse: int = 8
    scales: int = 1
    glimpses: int = 6
    noise: float = 0.07
    batch: int = 256
    updates: int = 24_000
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    policy_weight: float = 0.01
    credit: str = "final"
    aims_by_sight: bool = False
    smoothing: float = 0.998
    held_out: int = HELD_OUT

    def __post_init__(self) -> None:
        if self.credit not in CREDITS:
            raise ValueError(f"credit is {self.credit!r}; expected one of {', '.join(CREDITS)}")
        check_fields(
            self,
            canvas=Range(28, 1024),
            clutter=Range(0, 1000),
            shift=Range(0, 27),  # some of the digit stays in the picture
            glimpse=Range(1, 1024),
            scales=Range(1, 8),  # the coarsest of 8 has boxes of 128 pixels a side
            glimpses=Range(2, 1000),  # a single one would leave no location to learn from
            noise=NOT_NEGATIVE,
            batch=COUNT,
            updates=COUNT,
            learning_rate=POSITIVE,
            weight_decay=NOT_NEGATIVE,
            policy_weight=NOT_NEGATIVE,
            smoothing=SMOOTHING,
            held_out=COUNT,
        )
        if self.clutter and self.canvas == 28:
            raise ValueError(
                f"clutter is {self.clutter}, but a canvas of 28 is the digit alone; expected 0 or a larger canvas"
            )

    @property
    def network(self) -> RecurrentAttentionModel:
        """The network that is trained."""
        return RecurrentAttentionModel(aims_by_sight=self.aims_by_sight)


def picture(key: jax.Array, digit: jax.Array, others: jax.Array, config: RamConfig) -> jax.Array:
    """A picture of the task, float32 (canvas, canvas), 0..1.

    digit: uint8 (28, 28). others: uint8 (clutter, 28, 28), digits that pieces are cut from.
    """
    place_key, *keys = jax.random.split(key, 1 + max(1, config.clutter))
    size = config.canvas
    if size == 28:
        padded = jnp.pad(digit, config.shift)
        corner = jax.random.randint(place_key, (2,), 0, 2 * config.shift + 1, jnp.int32)
        return jax.lax.dynamic_slice(padded, tuple(corner), (28, 28)).astype(jnp.float32) / 255
    corner = jax.random.randint(place_key, (2,), 0, size - 28 + 1, jnp.int32)
    drawn = jax.lax.dynamic_update_slice(jnp.zeros((size, size), jnp.uint8), digit, tuple(corner))
    for piece_key, other in zip(keys, others, strict=False):
        cut_key, put_key = jax.random.split(piece_key)
        cut = jax.random.randint(cut_key, (2,), 0, 28 - 8 + 1, jnp.int32)
        put = jax.random.randint(put_key, (2,), 0, size - 8 + 1, jnp.int32)
        piece = jax.lax.dynamic_slice(other, tuple(cut), (8, 8))
        under = jax.lax.dynamic_slice(drawn, tuple(put), (8, 8))
        drawn = jax.lax.dynamic_update_slice(drawn, jnp.maximum(piece, under), tuple(put))
    return drawn.astype(jnp.float32) / 255


class RamTrainer:
    """See ``baselines.loop.Trainer``."""

    def __init__(self, config: RamConfig, dataset: Dataset) -> None:
        self.config = config
        self.data, self.held_out = (on_device(part) for part in split(dataset, config.held_out))

    def init(self, key: jax.Array) -> Averaged:
        """The state before the first update."""
        network = self.config.network
        pixels = self.config.scales * self.config.glimpse**2
        params = network.init(
            key, jnp.zeros((1, network.core_size)), jnp.zeros((1, pixels)), jnp.zeros((1, 2))
        )
        return Averaged.start(params, self._optimiser())

    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        return adamw_cosine(config.learning_rate, config.updates, weight_decay=config.weight_decay)

    def step(self, state: Averaged, key: jax.Array, data: Any) -> tuple[Averaged, dict[str, jax.Array]]:
        """One update."""
        config = self.config
        draw_key, look_key = jax.random.split(key)
        pictures, labels = split_batch(draw(config, draw_key, data, config.batch))
        gradient, metrics = jax.grad(
            lambda params: loss(config, params, pictures, labels, look_key), has_aux=True
        )(state.params)
        return state.descend(gradient, self._optimiser(), config.smoothing), metrics

    def evaluate(self, state: Averaged, key: jax.Array) -> dict[str, float]:
        """Error in per cent on held-out images, one rollout each, locations without noise after the first."""
        return {"error_percent": error_percent(self.config, state.averaged, key, *self.held_out)}


def draw(config: RamConfig, key: jax.Array, data: Any, batch: int) -> tuple[jax.Array, jax.Array]:
    """Random training pictures, float32 (batch, canvas, canvas), and labels, int32 (batch,)."""
    images, labels = data
    pick_key, other_key, place_key = jax.random.split(key, 3)
    chosen = jax.random.randint(pick_key, (batch,), 0, len(labels), jnp.int32)
    return place(config, place_key, images[chosen], images, other_key), labels[chosen]


def place(
    config: RamConfig, key: jax.Array, digits: jax.Array, images: jax.Array, other_key: jax.Array
) -> jax.Array:
    """A picture of each digit: uint8 (B, 28, 28) -> float32 (B, canvas, canvas)."""
    count = len(digits)
    others = jax.random.randint(other_key, (count, config.clutter), 0, len(images), jnp.int32)
    return jax.vmap(functools.partial(picture, config=config))(
        jax.random.split(key, count), digits, images[others]
    )


class Rollout(NamedTuple):
    """T glimpses of B pictures, float32. log_density: of the location drawn after a glimpse, up to a constant.
    elsewhere: the logits had the location been drawn on the other side of its mean."""

    logits: jax.Array  # (T, B, C)
    log_density: jax.Array  # (T, B)
    baseline: jax.Array  # (T, B)
    locations: jax.Array  # (T, B, 2)
    elsewhere: jax.Array  # (T, B, C)


def look(
    config: RamConfig, params: Any, pictures: jax.Array, key: jax.Array, noise: float, *, mirror: bool = False
) -> Rollout:
    """Look at a batch, the first location uniform over the picture. Without ``mirror``, elsewhere is the logits."""
    first_key, noise_key = jax.random.split(key)
    batch = len(pictures)
    means = box_means(pictures, config.scales)

    def see(core: jax.Array, location: jax.Array) -> Any:
        seen = glimpse_sensor(means, location, config.canvas, config.glimpse, config.scales)
        return config.network.apply(params, core, seen, location)

    def turn(carry: Any, key: jax.Array) -> tuple[Any, Rollout]:
        core, location, mirrored = carry
        other = jax.lax.stop_gradient(see(core, mirrored)[1]) if mirror else None
        core, logits, mean, baseline = see(core, location)
        step = noise * jax.random.normal(key, mean.shape, jnp.float32)
        drawn = jax.lax.stop_gradient(mean + step)
        mirrored = jnp.clip(jax.lax.stop_gradient(mean - step), -1, 1) if mirror else mirrored
        # The density is of the location as drawn; it is clipped only where it is used.
        log_density = -0.5 * jnp.sum((drawn - mean) ** 2, axis=-1) / max(noise, 1e-6) ** 2
        seen = Rollout(logits, log_density, baseline, location, logits if other is None else other)
        return (core, jnp.clip(drawn, -1, 1), mirrored), seen

    core = jnp.zeros((batch, config.network.core_size), jnp.float32)
    start = jax.random.uniform(first_key, (batch, 2), jnp.float32, -1, 1)
    keys = jax.random.split(noise_key, config.glimpses)
    # Unrolled, XLA's CPU compiler makes the backward pass a third shorter.
    return jax.lax.scan(turn, (core, start, start), keys, unroll=config.glimpses)[1]


def loss(
    config: RamConfig, params: Any, pictures: jax.Array, labels: jax.Array, key: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The hybrid loss and what to plot."""
    mirror = config.credit == "mirrored"
    logits, log_density, baseline, locations, elsewhere = look(
        config, params, pictures, key, config.noise, mirror=mirror
    )
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels[None])
    right = (jnp.argmax(logits[-1], -1) == labels).astype(jnp.float32)
    if mirror:
        others = optax.softmax_cross_entropy_with_integer_labels(elsewhere, labels[None])
        gain = jnp.minimum(others, WORST) - jnp.minimum(losses, WORST)
        advantage = jax.lax.stop_gradient(gain[1:])
    else:
        # The last location is drawn, but nothing is seen there.
        advantage = jax.lax.stop_gradient(right[None] - baseline)[:-1]
    policy = -jnp.mean(jnp.sum(log_density[:-1] * advantage, axis=0))
    error = jnp.mean((baseline - right[None]) ** 2)
    total = jnp.mean(losses[-1]) + 0.5 * jnp.mean(losses[:-1]) + config.policy_weight * policy + error
    return total, {
        "cross_entropy": jnp.mean(losses[-1]),
        "accuracy": jnp.mean(right),
        "baseline_error": error,
        "location_spread": jnp.mean(jnp.std(locations[1:], axis=1)),
    }


def error_percent(
    config: RamConfig, params: Any, key: jax.Array, images: jax.Array, labels: jax.Array
) -> float:
    """Error of single rollouts over every image once, per cent; digits of the 28-pixel task are not displaced."""
    still = dataclasses.replace(config, shift=0)
    wrong = 0.0
    for number, first in enumerate(range(0, len(labels), 1000)):
        part_key = jax.random.fold_in(key, number)
        part = slice(first, first + 1000)
        wrong += float(_wrong(still, params, part_key, images[part], labels[part], images))
    return 100 * wrong / len(labels)


@functools.partial(jax.jit, static_argnames="config")
def _wrong(
    config: RamConfig, params: Any, key: jax.Array, digits: jax.Array, labels: jax.Array, images: jax.Array
) -> jax.Array:
    place_key, other_key, look_key = jax.random.split(key, 3)
    pictures = place(config, place_key, digits, images, other_key)
    logits = look(config, params, pictures, look_key, 0.0)[0]
    return jnp.sum(jnp.argmax(logits[-1], -1) != labels, dtype=jnp.float32)
