"""What an environment's programs take as an argument, so that values change without compiling again."""

from __future__ import annotations

from typing import Any

import jax

from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.content import content_hash, same_content
from mnistpro_jax.env.types import pytree, static_field


@pytree
class EnvParams:
    """Everything an environment's programs take as an argument.

    bank: the scenes. budget: int32 (), steps of an episode, the answer included. move_reward, correct_reward,
    wrong_reward, invalid_reward: float32 (). start_xy: int32 (2,), used by the start rule ``fixed``. window, stride:
    pixels, of the environment that these were made for, whose budget they hold; another one refuses them.
    """

    bank: Bank
    budget: jax.Array
    move_reward: jax.Array
    correct_reward: jax.Array
    wrong_reward: jax.Array
    invalid_reward: jax.Array
    start_xy: jax.Array
    window: int = static_field()
    stride: int = static_field()

    def __eq__(self, other: object) -> bool:
        """Equal where all arrays are; NotImplemented for anything but params."""
        return same_content(self, other) if isinstance(other, EnvParams) else NotImplemented

    def __hash__(self) -> int:
        return content_hash(self)

    def __deepcopy__(self, memo: Any) -> EnvParams:
        """Itself: nothing in it can change, and its bank may fill hundreds of megabytes."""
        return self

    @property
    def max_steps_in_episode(self) -> jax.Array:
        """The budget, by the name under which gymnax's trainers look for it."""
        return self.budget
