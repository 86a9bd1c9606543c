"""A model of the world for planners: roots, steps and legal actions for DeepMind's mctx.

The embedding of a search node is the environment's state, so that the search is exact: moves and answers are
deterministic, and the state holds no key. **The state knows the label.** A search that may answer finds the right
answer by trying all of them, and one that only moves still sees windows that it has not looked at. That is the upper
bound of a planner that knows the scene; an agent that may not know it searches over scenes that fit what it has seen.
``answers=False`` takes the answers out of the search.

A search works on batches: states, observations and actions have a leading axis B here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Ending, Observation, State

Evaluate = Callable[[Any, Observation], tuple[jax.Array, jax.Array]]
"""(weights, observations with a leading B) -> (prior logits float32 (B, num_actions), values float32 (B,))."""

_ILLEGAL = float(np.finfo(np.float32).min)


def num_actions(env: Environment) -> int:
    """Flat actions: four moves, then the answers. TypeError for more than two digits."""
    if env.num_digits > 2:
        raise TypeError(f"{env.num_digits} digits have no flat actions, which a search needs; use one or two")
    return int(4 + env.num_classes**env.num_digits)


def legal_actions(
    env: Environment, state: State, *, clamped: bool = False, answers: bool = True
) -> jax.Array:
    """Which flat actions make sense in each of B states: bool (B, num_actions), True = legal.

    clamped: whether moves that the canvas's border stops, and that only cost a step, count as legal. answers: whether
    answers do. An episode that has ended has no legal actions.
    """
    number = num_actions(env)
    x, y = state.xy[:, 0], state.xy[:, 1]
    changes = jnp.stack([y > 0, y < env.height - env.window, x > 0, x < env.width - env.window], axis=1)
    # Where nothing moves the window and answers are out, moves stay: a search needs something to choose.
    stuck = ~jnp.any(changes, axis=1, keepdims=True) & (not answers)
    moves = changes | stuck | clamped
    said = jnp.full((state.xy.shape[0], number - 4), answers, jnp.bool_)
    running = (state.ending == Ending.RUNNING)[:, None]
    return jnp.concatenate([moves, said], axis=1) & running


def masked(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Logits with illegal actions out of reach: the smallest float32 where not ``legal``, same shape."""
    return jnp.where(legal, logits, jnp.asarray(_ILLEGAL, logits.dtype))


class Model:
    """What a search asks for: ``root``, ``recurrent_fn`` and ``invalid_actions``.

    env: the environment. evaluate: prior logits and values of observations, see ``Evaluate``. discount: factor a step.
    clamped, answers: see ``legal_actions``.

        model = Model(env, evaluate)
        output = mctx.gumbel_muzero_policy(
            params=(weights, params),
            rng_key=key,
            root=model.root((weights, params), observation, state),
            recurrent_fn=model.recurrent_fn,
            num_simulations=32,
            invalid_actions=model.invalid_actions(state),
        )

    Everywhere, ``params`` is the pair (weights of ``evaluate``, ``EnvParams``).
    """

    def __init__(
        self,
        env: Environment,
        evaluate: Evaluate,
        *,
        discount: float = 1.0,
        clamped: bool = False,
        answers: bool = True,
    ) -> None:
        if not 0 <= discount <= 1:
            raise ValueError(f"discount is {discount}; expected 0 to 1")
        num_actions(env)
        self.env, self.evaluate, self.discount = env, evaluate, discount
        self.clamped, self.answers = clamped, answers

    def legal_actions(self, state: State) -> jax.Array:
        """bool (B, num_actions), with this model's options."""
        return legal_actions(self.env, state, clamped=self.clamped, answers=self.answers)

    def invalid_actions(self, state: State) -> jax.Array:
        """The mask that mctx's policies take for the root: bool (B, num_actions), True = invalid."""
        return ~self.legal_actions(state)

    def root(self, params: tuple[Any, EnvParams], observation: Observation, state: State) -> Any:
        """``mctx.RootFnOutput`` of B running episodes, as ``env.reset`` or ``env.step`` gave them."""
        logits, value = self._judge(params, observation)
        return _mctx().RootFnOutput(
            prior_logits=masked(logits, self.legal_actions(state)), value=value, embedding=state
        )

    def recurrent_fn(
        self, params: tuple[Any, EnvParams], rng_key: jax.Array, action: jax.Array, embedding: State
    ) -> tuple[Any, State]:
        """One step of B nodes: (``mctx.RecurrentFnOutput``, states).

        The discount is 0 where the episode ended, by an answer or by the budget, which is part of the task here: the
        observation counts it. From an ended episode nothing more can be gained.
        """
        observation, state, reward, terminated, truncated, _ = jax.vmap(
            self.env.step_env, in_axes=(None, 0, 0, None)
        )(rng_key, embedding, action, params[1])
        logits, value = self._judge(params, observation)
        done = terminated | truncated
        legal = (
            self.legal_actions(state) | done[:, None]
        )  # logits of nodes that are not expanded, all the same
        output = _mctx().RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(done, jnp.float32(0), jnp.float32(self.discount)),
            prior_logits=masked(logits, legal),
            value=jnp.where(done, jnp.float32(0), value),
        )
        return output, state

    def _judge(self, params: tuple[Any, EnvParams], observation: Observation) -> tuple[jax.Array, jax.Array]:
        logits, value = self.evaluate(params[0], observation)
        size = observation.step.shape[0]
        if logits.shape != (size, num_actions(self.env)) or value.shape != (size,):
            raise ValueError(
                f"evaluate gave logits {logits.shape} and values {value.shape}; expected "
                f"{(size, num_actions(self.env))} and {(size,)}"
            )
        return logits, value


def _mctx() -> Any:
    try:
        import mctx
    except ImportError as error:
        raise missing("mctx", "mctx") from error
    return mctx
