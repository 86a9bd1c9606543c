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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env import bitmap, picture, reveal, spaces
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.compile_hints import materialised, where_needed
from mnistpro_jax.env.lattice import div_rem
from mnistpro_jax.env.outline import OUTLINE_WIDTH, READABLE_HIGH, READABLE_LOW
from mnistpro_jax.env.random_bits import random_bits
from mnistpro_jax.env.types import (
    Action,
    Ending,
    EpisodeStatistics,
    FusedCanvas,
    Kind,
    Observation,
    State,
    pytree,
)

OBSERVATIONS = {
    "packed": "the window, one bit a pixel: uint32 (ceil(window / 32), window), 1 = stroke (see bitmap)",
    "glimpse": "the window: uint8 (window, window), 1 = stroke",
    "canvas": "FusedCanvas at native resolution: uint8 (28, 28 n) counts of pixels per native cell",
    "canvas_full": "FusedCanvas at full resolution: uint8 (height, width), 0 or 1",
    "published": "the published picture: uint8 (height, width, 3), grey outside the window",
}
STARTS = {
    "stroke": "centred on a uniformly random stroke pixel, clamped into the canvas",
    "published": "the start that the bank lists for the episode (a function of the canvas's content)",
    "fixed": "params.start_xy",
}


@pytree
class EnvParams:
    """Everything an environment's programs take as an argument.

    bank: the scenes. budget: int32 (), steps of an episode, the answer included. move_reward, correct_reward,
    wrong_reward, invalid_reward: float32 (). start_xy: int32 (2,), used by the start rule ``fixed``.
    """

    bank: Bank
    budget: jax.Array
    move_reward: jax.Array
    correct_reward: jax.Array
    wrong_reward: jax.Array
    invalid_reward: jax.Array
    start_xy: jax.Array

    @property
    def max_steps_in_episode(self) -> jax.Array:
        """The budget, by the name under which gymnax's trainers look for it."""
        return self.budget


def default_budget(height: int, width: int, window: int, stride: int) -> int:
    """Steps of an episode: the number of window positions on the stride's grid (36 and 78 as published)."""
    return ((width - window) // stride + 1) * ((height - window) // stride + 1)


@dataclasses.dataclass(frozen=True)
class Environment:
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
        side = min(self.height, self.width)
        if not 1 <= self.window <= side:
            raise ValueError(
                f"window is {self.window}; expected 1 to {side} pixels (the canvas's shorter side)"
            )
        if self.stride < 1:
            raise ValueError(f"stride is {self.stride}; expected 1 pixel or more")
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

    # ---- The contract -------------------------------------------------------------------------------------

    def reset(self, key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """Start a random episode. Returns the first observation and the state."""
        return self.reset_env(key, params)

    def step(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """One step, and the next episode's start where this one ends.

        key: used only for the next episode's start. action: int32 () flat (``action_space``), or an ``Action``.
        Returns (observation, state, reward float32 (), terminated bool (), truncated bool (), info). info has the
        same tree on every step: ``final_observation``, what the episode shows after this step (equal to the
        observation unless it ended), and ``statistics``, the episode's ``EpisodeStatistics`` including this step.
        """
        after, words, reward, terminated, truncated = self._advance(state, action, params)
        done = terminated | truncated

        def restart(key: jax.Array, params: EnvParams) -> tuple[State, jax.Array]:
            scene, xy = self._draw_start(key, params)
            words = params.bank.crop(scene, xy, self.window)
            return self._begin(scene, xy, words), words

        following, next_words = where_needed(done, restart, key, (after, words), params)
        observation = self._observe(following, next_words, params)
        if self.observation in ("packed", "glimpse", "published"):
            final_observation = self._observe(after, words, params)
        else:
            # The same as the observation unless the episode ended, and dearer to make than to copy.
            def draw(ended: tuple[State, jax.Array], params: EnvParams) -> Observation:
                return self._observe(*ended, params)

            final_observation = where_needed(done, draw, (after, words), observation, params)
        info = {"final_observation": final_observation, "statistics": self.statistics(after, params)}
        return observation, following, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """As ``reset``: a random scene, and a start by the environment's rule."""
        return self._show(*self._draw_start(key, params), params)

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
        info = {"final_observation": observation, "statistics": self.statistics(after, params)}
        return observation, after, reward, terminated, truncated, info

    def step_running(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """As ``step_env``, for episodes that have not ended: cheaper, because it does not ask whether they have.

        What it returns for an ended episode means nothing.
        """
        del key
        after, words, reward, terminated, truncated = self._advance(state, action, params)
        observation = self._observe(after, words, params)
        info = {"final_observation": observation, "statistics": self.statistics(after, params)}
        return observation, after, reward, terminated, truncated, info

    def reset_to(self, scene: jax.Array, start_xy: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """Start the episode of a given scene, int32 (m,) tile numbers, at a given corner, int32 (2,).

        The corner is clamped into the canvas.
        """
        limit = self._limit()
        return self._show(scene.astype(jnp.int32), jnp.clip(start_xy.astype(jnp.int32), 0, limit), params)

    def draw_start(self, key: jax.Array, scene: jax.Array, params: EnvParams) -> jax.Array:
        """A start corner for a given scene under the rule ``stroke`` or ``fixed``, int32 (2,)."""
        bits = random_bits(key, 1, self._one(params))[0]
        return self._start(bits, scene, jnp.asarray(-1, jnp.int32), params)

    def statistics(self, state: State, params: EnvParams) -> EpisodeStatistics:
        """Exact counts of the episode so far."""
        label = params.bank.label(state.scene)
        digits_correct = state.answer == label
        # Every step but a last answer or invalid action was a move.
        still = (state.ending == Ending.ANSWERED) | (state.ending == Ending.INVALID_ACTION)
        return EpisodeStatistics(
            steps=state.step,
            moves=state.step - still.astype(jnp.int32),
            revisits=state.revisits,
            ending=state.ending,
            answer=state.answer,
            label=label,
            correct=jnp.all(digits_correct),
            digits_correct=digits_correct,
            stroke_total=params.bank.stroke_total(state.scene),
            stroke_seen=state.stroke_seen,
            stroke_seen_readable=state.stroke_seen_readable,
            area_seen=state.area_seen,
            area_seen_readable=state.area_seen_readable,
            episode_return=state.episode_return,
        )

    # ---- Spaces -------------------------------------------------------------------------------------------

    def action_space(self, params: EnvParams | None = None) -> Any:
        """``Discrete(4 + num_classes ** n)`` for n <= 2 (0 up, 1 down, 2 left, 3 right, then the answers in
        order); for more digits the space of structured actions (``structured_action_space``)."""
        if self.num_digits <= 2:
            return spaces.Discrete(4 + self.num_classes**self.num_digits)
        return self.structured_action_space()

    def structured_action_space(self) -> spaces.Tree:
        """The space of ``Action``: a kind (four moves, answer) and n digits."""
        digits = spaces.Box(0, self.num_classes - 1, (self.num_digits,), jnp.int32)
        return spaces.Tree(Action, (("kind", spaces.Discrete(5)), ("digits", digits)))

    def observation_space(self, params: EnvParams | None = None) -> spaces.Tree:
        """The space of ``Observation`` in this mode. The budget bounds the steps, at most 2^31 - 1."""
        scalar = {"shape": (), "dtype": jnp.int32}
        largest = 2**31 - 1
        far = max(self.width, self.height) - self.window
        return spaces.Tree(
            Observation,
            (
                ("view", self._view_space()),
                ("xy", spaces.Box(0, far, (2,), jnp.int32)),
                ("step", spaces.Box(0, largest, **scalar)),
                ("steps_left", spaces.Box(0, largest, **scalar)),
                ("last_action", spaces.Box(Kind.NONE, Kind.INVALID, **scalar)),
            ),
        )

    def _view_space(self) -> Any:
        if self.observation == "packed":
            shape = (bitmap.num_words(self.window), self.window)
            return spaces.Box(0, 2**32 - 1, shape, jnp.uint32)
        if self.observation == "glimpse":
            return spaces.Box(0, 1, (self.window, self.window), jnp.uint8)
        if self.observation == "published":
            return spaces.Box(0, 255, (self.height, self.width, 3), jnp.uint8)
        factor = self.native_factor if self.observation == "canvas" else 1
        box = spaces.Box(0, factor**2, (self.height // factor, self.width // factor), jnp.uint8)
        return spaces.Tree(FusedCanvas, (("stroke", box), ("revealed", box)))

    # ---- Actions ------------------------------------------------------------------------------------------

    def flat_action(self, action: Action) -> jax.Array:
        """The flat code of a structured action, int32 (); -1 if invalid. For n <= 2."""
        self._check_flat()
        code = jnp.zeros((), jnp.int32)
        for k in range(self.num_digits):
            code = code * self.num_classes + action.digits[k]
        valid = self._digits_valid(action.digits)
        answer = jnp.where(valid, code + 4, -1)
        move = jnp.where((action.kind >= 0) & (action.kind < Kind.ANSWER), action.kind, -1)
        return jnp.where(action.kind == Kind.ANSWER, answer, move).astype(jnp.int32)

    def structured_action(self, action: jax.Array) -> Action:
        """The structured action of a flat code, for n <= 2; a code out of range becomes an invalid action."""
        self._check_flat()
        action = jnp.asarray(action)
        if action.shape != () or not jnp.issubdtype(action.dtype, jnp.integer):
            raise TypeError(
                f"action has shape {action.shape} and dtype {action.dtype}; expected an integer of shape (), or a "
                "mnistpro_jax.Action (use jax.vmap for a batch)"
            )
        code = _as_int32(action)
        answers = self.num_classes**self.num_digits
        value = jnp.clip(code - 4, 0, answers - 1)
        digits = []
        for k in reversed(range(self.num_digits)):
            digits.append((value // self.num_classes**k) % self.num_classes)
        kind = jnp.where(code < 4, code, Kind.ANSWER)
        kind = jnp.where((code < 0) | (code >= 4 + answers), Kind.INVALID, kind)
        return Action(kind.astype(jnp.int32), jnp.stack(digits).astype(jnp.int32))

    def _check_flat(self) -> None:
        if self.num_digits > 2:
            raise TypeError(f"flat actions exist for 1 or 2 digits, not {self.num_digits}: pass an Action")

    def _digits_valid(self, digits: jax.Array) -> jax.Array:
        return jnp.all((digits >= 0) & (digits < self.num_classes))

    def _as_action(self, action: jax.Array | Action) -> Action:
        if not isinstance(action, Action):
            return self.structured_action(action)
        kind, digits = jnp.asarray(action.kind), jnp.asarray(action.digits)
        whole = all(jnp.issubdtype(part.dtype, jnp.integer) for part in (kind, digits))
        if not whole or kind.shape != () or digits.shape != (self.num_digits,):
            raise TypeError(
                f"action has kind {kind.dtype} {kind.shape} and digits {digits.dtype} {digits.shape}; expected "
                f"integers of shapes () and ({self.num_digits},) (use jax.vmap for a batch)"
            )
        return Action(_as_int32(kind), _as_int32(digits))

    # ---- Dynamics -----------------------------------------------------------------------------------------

    def _advance(
        self, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, jax.Array]:
        """The state after an action, what its window shows, and (reward, terminated, truncated)."""
        structured = self._as_action(action)
        whole, interior = self._masks()

        one = self._one(params)

        def outcome() -> tuple[State, reveal.Place, reveal.Place, jax.Array, jax.Array, jax.Array]:
            after, reward, terminated, truncated = self._move_or_answer(state, structured, params)
            place, place_interior = (mask.place(state.start_xy, after.xy) for mask in (whole, interior))
            return after, place, place_interior, reward, terminated, truncated

        after, place, place_interior, reward, terminated, truncated = materialised(outcome, one)

        def looks() -> tuple[reveal.Look, reveal.Look, jax.Array]:
            moved = (after.last_action >= Kind.UP) & (after.last_action <= Kind.RIGHT)
            again = moved & whole.contains_corner(state.visited, place, after.xy)
            return (
                whole.look(state.revealed, place, after.xy),
                interior.look(state.readable, place_interior, after.xy),
                state.revisits + again,
            )

        look, look_interior, revisits = materialised(looks, one)
        words = params.bank.crop(after.scene, after.xy, self.window)
        # An answer leaves the window where it was, so that there is nothing new to see.

        # In a loop of its own, so that the crop is not made again for each of the counts.
        def counts() -> tuple[jax.Array, jax.Array]:
            return self._count(words, whole.strips(look), interior.strips(look_interior), after.xy)

        seen = materialised(counts, one)
        after = dataclasses.replace(
            after,
            revisits=revisits,
            visited=whole.add_corner(state.visited, place, after.xy),
            revealed=state.revealed | whole.first_look(place, after.xy),
            readable=state.readable | interior.first_look(place_interior, after.xy),
            stroke_seen=state.stroke_seen + seen[0],
            stroke_seen_readable=state.stroke_seen_readable + seen[1],
            area_seen=state.area_seen + look.area,
            area_seen_readable=state.area_seen_readable + look_interior.area,
        )
        return after, words, reward, terminated, truncated

    def _move_or_answer(
        self, state: State, action: Action, params: EnvParams
    ) -> tuple[State, jax.Array, jax.Array, jax.Array]:
        """The state after an action, before its window is looked at, and (reward, terminated, truncated)."""
        kind, digits = action.kind, action.digits
        moving = (kind >= Kind.UP) & (kind <= Kind.RIGHT)
        answering = (kind == Kind.ANSWER) & self._digits_valid(digits)
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

        after = dataclasses.replace(
            state,
            xy=xy,
            step=step,
            last_action=jnp.where(answering | moving, kind, Kind.INVALID).astype(jnp.int32),
            ending=ending.astype(jnp.int32),
            answer=answer,
            episode_return=state.episode_return + reward,
        )
        return after, reward, terminated, truncated

    @staticmethod
    def _one(params: EnvParams) -> jax.Array:
        """For ``compile_hints.materialised``: the budget is at least 1, but the compiler cannot know."""
        return jnp.minimum(params.budget, 1)

    def _limit(self) -> NDArray[np.int32]:
        """The last window corner, (x, y)."""
        return np.array([self.width - self.window, self.height - self.window], np.int32)

    def _masks(self) -> tuple[reveal.RevealedMask, reveal.RevealedMask]:
        """(whole windows, windows less the outline's ring)."""
        geometry = (self.height, self.width, self.window, self.stride)
        whole = reveal.revealed_mask(*geometry)
        low, high = READABLE_LOW, READABLE_HIGH
        if self.window < low + high + 1:
            low, high = 0, self.window  # nothing of so small a window is readable
        return whole, reveal.revealed_mask(*geometry, low, high)

    def _count(
        self,
        words: jax.Array,
        strips: list[tuple[slice, jax.Array]],
        strips_interior: list[tuple[slice, jax.Array]],
        xy: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """What a window adds: stroke pixels per digit, int32 (n,), in both definitions.

        words: the window's bitmap. strips, strips_interior: its pixels that count (``RevealedMask.strips``).
        """
        # Digit k owns the columns from k W / n on. A window meets few digits: the one of its left side, and as
        # many more as it is wide.
        part = self.width // self.num_digits
        met = min(self.num_digits - 1, -(-self.window // part))
        left = div_rem(xy[0], part)[0]
        before = [bitmap.below((left + k + 1) * part - xy[0], words.shape[0])[:, None] for k in range(met)]
        digit = jnp.arange(self.num_digits, dtype=jnp.int32)
        counts = []
        for part_strips in (strips, strips_interior):
            total = jnp.zeros((), jnp.int32)
            up_to = [jnp.zeros((), jnp.int32)] * met
            for rows, fresh in part_strips:
                strokes = words[:, rows] & fresh
                total = total + bitmap.popcount(strokes)
                up_to = [sum_ + bitmap.popcount(strokes & b) for sum_, b in zip(up_to, before, strict=True)]
            passed = jnp.zeros((), jnp.int32)
            by_digit = jnp.zeros((self.num_digits,), jnp.int32)
            for k, count in enumerate([*up_to, total]):
                # Digits past the last one hold nothing.
                owner = jnp.minimum(left + k, self.num_digits - 1)
                by_digit = by_digit + jnp.where(digit == owner, count - passed, 0)
                passed = count
            counts.append(by_digit)
        return counts[0], counts[1]

    # ---- Starts -------------------------------------------------------------------------------------------

    def _draw_start(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, jax.Array]:
        """A random scene and its start: (int32 (m,), int32 (2,))."""
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
        pixel, any_stroke = params.bank.stroke_pixel(scene, bits)
        centred = jnp.clip(pixel - self.window // 2, 0, limit)
        return jnp.where(any_stroke, centred, limit // 2)

    def _begin(self, scene: jax.Array, xy: jax.Array, words: jax.Array) -> State:
        """The state in which an episode has just shown its first window."""
        whole, interior = self._masks()
        zero = jnp.zeros((), jnp.int32)
        none = jnp.full((self.num_digits,), -1, jnp.int32)
        place, place_interior = (mask.place(xy, xy) for mask in (whole, interior))
        everything = slice(0, self.window)
        seen = self._count(words, [(everything, whole.interior)], [(everything, interior.interior)], xy)
        return State(
            scene=scene,
            start_xy=xy,
            xy=xy,
            step=zero,
            last_action=jnp.asarray(Kind.NONE, jnp.int32),
            ending=jnp.asarray(Ending.RUNNING, jnp.int32),
            answer=none,
            revisits=zero,
            revealed=whole.first_look(place, xy),
            readable=interior.first_look(place_interior, xy),
            visited=whole.add_corner(jnp.zeros(whole.shape, jnp.uint32), place, xy),
            stroke_seen=seen[0],
            stroke_seen_readable=seen[1],
            area_seen=jnp.asarray(whole.interior_area, jnp.int32),
            area_seen_readable=jnp.asarray(interior.interior_area, jnp.int32),
            episode_return=jnp.zeros((), jnp.float32),
        )

    def _show(self, scene: jax.Array, xy: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        words = params.bank.crop(scene, xy, self.window)
        state = self._begin(scene, xy, words)
        return self._observe(state, words, params), state

    # ---- Observations -------------------------------------------------------------------------------------

    def _observe(self, state: State, words: jax.Array, params: EnvParams) -> Observation:
        """words: the current window's bitmap."""
        return Observation(
            view=self._view(state, words, params),
            xy=state.xy,
            step=state.step,
            steps_left=(params.budget - state.step).astype(jnp.int32),
            last_action=state.last_action,
        )

    def _view(self, state: State, words: jax.Array, params: EnvParams) -> Any:
        if self.observation == "published":
            first, count = picture.drawn_rows(state.xy[1], self.window, self.height)
            rows = params.bank.rows(state.scene, first, count)
            return picture.published_picture(
                rows, state.xy, self.window, self.height, self.width, self.outline, self._one(params)
            )
        if self.observation in ("packed", "glimpse"):
            shown = words & self._masks()[1].interior if self.outline else words
            return shown if self.observation == "packed" else bitmap.unpack(shown, self.window)
        whole, interior = self._masks()
        mask, cells = (interior, state.readable) if self.outline else (whole, state.revealed)
        revealed = mask.pixels(cells, state.start_xy, self._one(params))
        stroke = params.bank.canvas(state.scene) & revealed
        if self.observation == "canvas_full":
            return FusedCanvas(bitmap.unpack(stroke, self.width), bitmap.unpack(revealed, self.width))
        return FusedCanvas(self._native(stroke), self._native(revealed))

    def _native(self, words: jax.Array) -> jax.Array:
        """Set pixels per native cell of a full bitmap, uint8 (28, 28 n)."""
        return bitmap.pool(words, self.width, self.native_factor)


def _as_int32(values: jax.Array) -> jax.Array:
    """Integers as int32; what does not fit goes to the nearest end, where it is invalid, instead of wrapping."""
    if values.dtype.itemsize > 4:
        bounds = np.iinfo(np.int32)
        values = jnp.minimum(values, bounds.max)
        if jnp.issubdtype(values.dtype, jnp.signedinteger):
            values = jnp.maximum(values, bounds.min)
    return values.astype(jnp.int32)


def _check_choice(name: str, value: str, choices: dict[str, str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
