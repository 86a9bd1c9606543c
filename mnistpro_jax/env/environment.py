"""The POMDP: an environment shows one scene of a bank through a moving window.

``Environment`` is static and hashable: it fixes shapes and rules. ``EnvParams`` is a pytree of arrays (the bank,
the budget, the rewards) and an argument of every function, so that values can change, be swept by ``vmap`` or
sharded without compiling again. Nothing here knows where scenes come from.

    env, params = mnistpro_jax.make("MnistPro-L1-v0")
    obs, state = env.reset(key, params)
    obs, state, reward, terminated, truncated, info = env.step(key, state, action, params)

``step`` starts the next episode in the same call when one ends: ``obs`` and ``state`` then belong to the new
episode, and ``info["final_observation"]`` is what the old one ended on. ``step_env`` never resets.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.data.numbers import whole_number
from mnistpro_jax.env import actions, checks, picture, spaces, views
from mnistpro_jax.env.compile_hints import where_needed
from mnistpro_jax.env.compiled import compiled
from mnistpro_jax.env.gymnax_names import GymnaxNames, also_gymnax
from mnistpro_jax.env.outline import OUTLINE_WIDTH
from mnistpro_jax.env.params import EnvParams
from mnistpro_jax.env.positions import Axis, Positions, Seen
from mnistpro_jax.env.random_bits import random_bits
from mnistpro_jax.env.statistics import episode_statistics
from mnistpro_jax.env.types import (
    Action,
    Ending,
    EpisodeStatistics,
    Kind,
    Observation,
    State,
)
from mnistpro_jax.env.views import OBSERVATIONS

__all__ = ["OBSERVATIONS", "STARTS", "EnvParams", "Environment", "default_budget"]

STARTS = {
    "stroke": "centred on a uniformly random stroke pixel, clamped into the canvas",
    "published": "the start that the bank lists for the episode (a function of the canvas's content)",
    "fixed": "params.start_xy",
}


def default_budget(height: int, width: int, window: int, stride: int) -> int:
    """Steps of an episode: the number of window positions on the stride's grid (36 and 78 as published)."""
    return ((width - window) // stride + 1) * ((height - window) // stride + 1)


@dataclasses.dataclass(frozen=True)
class Environment(GymnaxNames):
    """Static description of a MNIST-PRO world.

    height, width: canvas pixels. num_digits: parts n of an answer, each in 0 .. num_classes - 1.
    native_factor: canvas pixels per native pixel, 0 if none. window, stride: pixels. observation: a key of
    ``OBSERVATIONS``. start: a key of ``STARTS``. outline: whether the outline hides the window's outer pixels
    from the agent: the cyan ring in ``published``, pixels that are neither shown nor revealed elsewhere.
    """

    height: int
    width: int
    num_digits: int
    num_classes: int
    native_factor: int
    window: int = 64
    stride: int = 32
    observation: str = "packed"
    start: str = "stroke"
    outline: bool = False

    def __post_init__(self) -> None:
        _check_choice("observation", self.observation, OBSERVATIONS)
        _check_choice("start", self.start, STARTS)
        # The canvas's shorter side is the largest window.
        window = whole_number("window", self.window, "pixels", 1, min(self.height, self.width))
        object.__setattr__(self, "window", window)
        object.__setattr__(self, "stride", whole_number("stride", self.stride, "pixels", 1))
        if not isinstance(self.outline, bool):
            raise TypeError(f"outline is {self.outline!r}; expected True or False")
        if self.outline and self.window < 2 * OUTLINE_WIDTH:
            raise ValueError(f"window is {self.window}; with an outline it needs {2 * OUTLINE_WIDTH}")
        if self.observation == "canvas" and not self.native_factor:
            raise ValueError(
                f"observation 'canvas' needs a canvas that is a whole multiple of the native digits; this one is "
                f"{self.height} x {self.width}. Use observation 'canvas_full', or a size that is a multiple of 28."
            )
        if self.observation == "canvas" and self.native_factor > 15:
            raise ValueError(
                "observation 'canvas' counts pixels per native cell in 8 bits: factor at most 15"
            )

    @property
    def default_params(self) -> None:
        """None: an environment is static and holds no arrays. Give wrappers the params that ``make`` returned."""
        return None

    # ---- The contract -------------------------------------------------------------------------------------

    @compiled
    def reset(self, key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """Start a random episode. Returns the first observation and the state."""
        return self.reset_env(key, params)

    @compiled
    def step(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """One step, and the next episode's start where this one ends.

        key: used only for the next episode's start. action: int32 () flat (``action_space``), or an ``Action``.
        Returns (observation, state, reward float32 (), terminated bool (), truncated bool (), info). info has the
        same tree on every step, and is of the episode that this step belongs to: ``final_observation``, what it shows
        after the step (equal to the observation unless it ended); ``final_state``, its state then; ``statistics``,
        its ``EpisodeStatistics`` so far. The statistics are a function of the state, and its coverages the dearest
        part of a step: compiled into a program that does not use them, they cost nothing. Where those of ended
        episodes alone are used, ``final_statistics(done, info["final_state"], params)`` costs a fraction.
        """
        checks.check_key(key)
        after, words, reward, terminated, truncated = self._advance(state, action, params)
        done = terminated | truncated

        def restart(key: jax.Array, params: EnvParams) -> tuple[jax.Array, jax.Array, jax.Array]:
            scene, xy = self._draw_start(key, params)
            return scene, xy, params.bank.crop(scene, xy, self.window)

        # What has to be drawn is computed for the episodes that begin alone; the rest of a first state is constants.
        scene, xy, next_words = where_needed(done, restart, key, (after.scene, after.xy, words), params)
        following = jax.tree.map(lambda new, old: jnp.where(done, new, old), self._begin(scene, xy), after)
        observation = self._observe(following, next_words, params)
        if self.observation in ("packed", "glimpse", "published"):
            final_observation = self._observe(after, words, params)
        else:
            # The same as the observation unless the episode ended, and dearer to make than to copy.
            def draw(ended: tuple[State, jax.Array], params: EnvParams) -> Observation:
                return self._observe(*ended, params)

            final_observation = where_needed(done, draw, (after, words), observation, params)
        info = self._info(final_observation, after, params)
        return observation, following, reward, terminated, truncated, info

    @compiled
    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """As ``reset``: a random scene, and a start by the environment's rule."""
        return self._show(*self._draw_start(key, params), params)

    @compiled
    def step_env(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """One step without reset. After the end nothing changes, and the reward is 0.

        Takes and returns what ``step`` does; ``key`` is not used (moves and answers are deterministic).
        """
        del key
        after, words, reward, terminated, truncated = self._advance(state, action, params)
        ended = state.ending != Ending.RUNNING
        after = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, after)
        limit = after.ending == Ending.STEP_LIMIT
        terminated = jnp.where(ended, ~limit, terminated)
        truncated = jnp.where(ended, limit, truncated)
        reward = jnp.where(ended, jnp.float32(0), reward)
        if self.observation in ("packed", "glimpse", "published"):
            words = jnp.where(ended, params.bank.crop(after.scene, after.xy, self.window), words)
        observation = self._observe(after, words, params)
        info = self._info(observation, after, params)
        return observation, after, reward, terminated, truncated, info

    @compiled
    def step_running(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """As ``step_env``, for episodes that have not ended: cheaper, because it does not ask whether they have.

        What it returns for an ended episode means nothing.
        """
        del key
        after, words, reward, terminated, truncated = self._advance(state, action, params)
        observation = self._observe(after, words, params)
        info = self._info(observation, after, params)
        return observation, after, reward, terminated, truncated, info

    @compiled
    def reset_to(self, scene: jax.Array, start_xy: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """Start the episode of a given scene, int32 (m,) tile numbers, at a given corner, int32 (2,).

        The corner is clamped into the canvas.
        """
        checks.check_params(self, params)
        checks.check_whole("scene", scene, (params.bank.tiles_per_scene,))
        checks.check_whole("start_xy", start_xy, (2,))
        corner = jnp.clip(jnp.asarray(start_xy, jnp.int32), 0, self._limit())
        return self._show(jnp.asarray(scene, jnp.int32), corner, params)

    @compiled
    def draw_start(self, key: jax.Array, scene: jax.Array, params: EnvParams) -> jax.Array:
        """A start corner for a given scene under the rule ``stroke`` or ``fixed``, int32 (2,)."""
        checks.check_key(key)
        checks.check_params(self, params)
        checks.check_whole("scene", scene, (params.bank.tiles_per_scene,))
        bits = random_bits(key, 1, self._one(params))[0]
        return self._start(bits, scene, jnp.asarray(-1, jnp.int32), params)

    @compiled
    def statistics(self, state: State, params: EnvParams) -> EpisodeStatistics:
        """Exact counts of the episode so far."""
        self._check(state, params)
        seen, readable = self._seen(state, (False, True), params)
        return episode_statistics(state, params.bank, self._positions, seen, readable, self._one(params))

    @compiled
    def final_statistics(self, done: jax.Array, state: State, params: EnvParams) -> EpisodeStatistics:
        """``statistics`` of an episode that has ended (``done``, bool ()); all zero where it goes on.

        Under ``vmap`` on a CPU, only those of the ended episodes are computed.
        """
        shapes = jax.eval_shape(self.statistics, state, params)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return where_needed(done, self.statistics, state, nothing, params)

    def _info(self, observation: Observation, state: State, params: EnvParams) -> dict[str, Any]:
        return {
            "final_observation": observation,
            "final_state": state,
            "statistics": self.statistics(state, params),
        }

    # ---- Spaces -------------------------------------------------------------------------------------------

    def action_space(self, params: EnvParams | None = None) -> Any:
        """``Discrete(4 + num_classes ** n)`` for n <= 2 (0 up, 1 down, 2 left, 3 right, then the answers in
        order); for more digits the space of structured actions (``structured_action_space``)."""
        if self.num_digits <= 2:
            return also_gymnax(spaces.Discrete(4 + self.num_classes**self.num_digits))
        return self.structured_action_space()

    def structured_action_space(self) -> spaces.Tree:
        """The space of ``Action``: a kind (four moves, answer) and n digits."""
        digits = spaces.Box(0, self.num_classes - 1, (self.num_digits,), jnp.int32)
        return also_gymnax(spaces.Tree(Action, (("kind", spaces.Discrete(5)), ("digits", digits))))

    def observation_space(self, params: EnvParams | None = None) -> spaces.Tree:
        """The space of ``Observation`` in this mode. The budget bounds the steps, at most 2^31 - 1."""
        scalar = {"shape": (), "dtype": jnp.int32}
        largest = 2**31 - 1
        far = max(self.width, self.height) - self.window
        fields = (
            ("view", views.space(self.observation, self.height, self.width, self.window, self.native_factor)),
            ("xy", spaces.Box(0, far, (2,), jnp.int32)),
            ("step", spaces.Box(0, largest, **scalar)),
            ("steps_left", spaces.Box(0, largest, **scalar)),
            ("last_action", spaces.Box(Kind.NONE, Kind.INVALID, **scalar)),
        )
        return also_gymnax(spaces.Tree(Observation, fields))

    # ---- Actions ------------------------------------------------------------------------------------------

    @compiled
    def flat_action(self, action: Action) -> jax.Array:
        """The flat code of a structured action, int32 (); -1 if invalid. For n <= 2."""
        return actions.flat(action, self.num_digits, self.num_classes)

    @compiled
    def structured_action(self, action: jax.Array) -> Action:
        """The structured action of a flat code, for n <= 2; a code out of range becomes an invalid action."""
        return actions.structured(action, self.num_digits, self.num_classes)

    # ---- Dynamics -----------------------------------------------------------------------------------------

    def _advance(
        self, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, jax.Array]:
        """The state after an action, what its window shows, and (reward, terminated, truncated)."""
        self._check(state, params)
        after, reward, terminated, truncated = self._move_or_answer(
            state, actions.checked(action, self.num_digits, self.num_classes), params
        )
        return after, params.bank.crop(after.scene, after.xy, self.window), reward, terminated, truncated

    def _move_or_answer(
        self, state: State, action: Action, params: EnvParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """The state after an action, and (reward, terminated, truncated)."""
        kind, digits = action.kind, action.digits
        moving = (kind >= Kind.UP) & (kind <= Kind.RIGHT)
        answering = (kind == Kind.ANSWER) & actions.digits_valid(digits, self.num_classes)
        limit = self._limit()
        forward = np.array([Kind.RIGHT, Kind.DOWN], np.int32)
        backward = np.array([Kind.LEFT, Kind.UP], np.int32)
        direction = (kind == forward).astype(jnp.int32) - (kind == backward).astype(jnp.int32)
        xy = jnp.clip(state.xy + self.stride * direction, 0, limit)
        step = state.step + 1
        truncated = moving & (step >= params.budget)
        terminated = ~moving
        ending = jnp.where(truncated, Ending.STEP_LIMIT, Ending.RUNNING)
        ending = jnp.where(moving, ending, jnp.where(answering, Ending.ANSWERED, Ending.INVALID_ACTION))
        answer = jnp.where(answering, digits, state.answer)
        correct = jnp.all(answer == params.bank.label(state.scene))
        verdict = jnp.where(correct, params.correct_reward, params.wrong_reward)
        reward = jnp.where(
            moving, params.move_reward, jnp.where(answering, verdict, params.invalid_reward)
        ).astype(jnp.float32)

        here = self._positions.one(xy)
        again = moving & jnp.any((state.visited & here) != 0)

        after = dataclasses.replace(
            state,
            xy=xy,
            step=step,
            last_action=jnp.where(answering | moving, kind, Kind.INVALID).astype(jnp.int32),
            ending=ending.astype(jnp.int32),
            answer=answer,
            revisits=state.revisits + again.astype(jnp.int32),
            visited=state.visited | here,
            episode_return=state.episode_return + reward,
        )
        return after, reward, terminated, truncated

    def _check(self, state: State, params: EnvParams) -> None:
        checks.check_params(self, params)
        checks.check_state(self, state, params.bank.tiles_per_scene, self._positions.shape)

    @staticmethod
    def _one(params: EnvParams) -> jax.Array:
        """For ``compile_hints.materialised``: the budget is at least 1, but the compiler cannot know."""
        return jnp.minimum(params.budget, 1)

    def _limit(self) -> NDArray[np.int32]:
        """The last window corner, (x, y)."""
        return np.array([self.width - self.window, self.height - self.window], np.int32)

    @property
    def _positions(self) -> Positions:
        axis = functools.partial(Axis, window=self.window, stride=self.stride)
        return Positions(axis(self.width), axis(self.height))

    def _seen(self, state: State, outlines: tuple[bool, ...], params: EnvParams) -> list[Seen]:
        """What was seen, without an outline or with it."""
        rings = [views.ring(self.window, outline) for outline in outlines]
        return self._positions.seen(state.visited, state.start_xy, rings, self._one(params))

    # ---- Starts -------------------------------------------------------------------------------------------

    def _draw_start(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, jax.Array]:
        """A random scene and its start: (int32 (m,), int32 (2,))."""
        checks.check_key(key)
        checks.check_params(self, params)
        tiles = params.bank.tiles_per_scene
        bits = random_bits(key, tiles + 1, self._one(params))
        scene, episode = params.bank.draw(bits[:tiles])
        return scene, self._start(bits[tiles], scene, episode, params)

    def _start(self, bits: jax.Array, scene: jax.Array, episode: jax.Array, params: EnvParams) -> jax.Array:
        limit = self._limit()
        if self.start == "fixed":
            return jnp.clip(params.start_xy, 0, limit)
        if self.start == "published":
            if params.bank.episodes is None or params.bank.episodes.starts is None:
                raise ValueError(
                    "start 'published' needs a bank that lists its episodes with their starts "
                    "(mnistpro_jax.published_bank, or episode_bank with starts); this bank draws scenes at random"
                )
            return jnp.clip(params.bank.episodes.starts[episode], 0, limit)
        pixel, any_stroke = params.bank.stroke_pixel(scene, bits, self._one(params))
        centred = jnp.clip(pixel - self.window // 2, 0, limit)
        return jnp.where(any_stroke, centred, limit // 2)

    def _begin(self, scene: jax.Array, xy: jax.Array) -> State:
        """The state in which an episode has just shown its first window."""
        zero = jnp.zeros((), jnp.int32)
        return State(
            scene=scene,
            # Buffers of their own, so that a state can be donated; a copy costs nothing within a program.
            start_xy=jnp.copy(xy),
            xy=xy,
            step=zero,
            last_action=jnp.asarray(Kind.NONE, jnp.int32),
            ending=jnp.asarray(Ending.RUNNING, jnp.int32),
            answer=jnp.full((self.num_digits,), -1, jnp.int32),
            revisits=zero,
            visited=self._positions.one(xy),
            episode_return=jnp.zeros((), jnp.float32),
        )

    def _show(self, scene: jax.Array, xy: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        words = params.bank.crop(scene, xy, self.window)
        state = self._begin(scene, xy)
        return self._observe(state, words, params), state

    # ---- Observations -------------------------------------------------------------------------------------

    def _view(self, state: State, words: jax.Array, params: EnvParams) -> Any:
        if self.observation in ("packed", "glimpse"):
            return views.window(words, self.window, self.outline, packed=self.observation == "packed")
        if self.observation == "published":
            first, count = picture.drawn_rows(state.xy[1], self.window, self.height)
            rows = params.bank.rows(state.scene, first, count)
            return picture.published_picture(
                rows, state.xy, self.window, self.height, self.width, self.outline, self._one(params)
            )
        (seen,) = self._seen(state, (self.outline,), params)
        factor = self.native_factor if self.observation == "canvas" else 1
        pixels = self._positions.pixels(seen)
        return views.fused_canvas(params.bank.canvas(state.scene), pixels, self.width, factor)

    def _observe(self, state: State, words: jax.Array, params: EnvParams) -> Observation:
        """words: the current window's bitmap."""
        return Observation(
            view=self._view(state, words, params),
            xy=state.xy,
            step=state.step,
            steps_left=(params.budget - state.step).astype(jnp.int32),
            last_action=state.last_action,
        )


def _check_choice(name: str, value: str, choices: dict[str, str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
