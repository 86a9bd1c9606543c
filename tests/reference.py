"""The whole POMDP once more, slow and plain: what every fast path is compared with.

Written from the rules alone, one pixel mask and one Python episode at a time, and drawing with Pillow, as
the published study did. It imports nothing of ``mnistpro_jax``, so that the two can only agree by both being
right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

UP, DOWN, LEFT, RIGHT, ANSWER, INVALID = range(6)
RUNNING, ANSWERED, STEP_LIMIT, INVALID_ACTION = range(4)

GREY = (128, 128, 128)
CYAN = (0, 229, 255)
DEFAULT_REWARDS = (-0.1, 10.0, -10.0, -10.0)

Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.uint8]


class ReferenceEpisode:
    """One episode, from reset to its end.

    canvas: uint8 (H, W), 0 stroke and 255 background. labels: the n digits, left to right. start_xy: corner
    (x, y) of the first window. window, stride: pixels; any window up to the canvas, any stride. budget:
    actions allowed, answer included. rewards: (move, correct, wrong, invalid).

    Attributes that tests read, all of them up to date after every step:
    xy, steps, moves, revisits, ending, answer (list or None), correct, digits_correct, windows (every
    corner shown, in order), revealed and readable (bool (H, W)), episode_return (np.float32).
    """

    def __init__(
        self,
        canvas: Pixels,
        labels: Sequence[int],
        start_xy: Sequence[int],
        window: int,
        stride: int,
        budget: int,
        rewards: Sequence[float] = DEFAULT_REWARDS,
        num_classes: int = 10,
    ) -> None:
        self.canvas = np.array(canvas)
        assert self.canvas.dtype == np.uint8
        assert set(np.unique(self.canvas)) <= {0, 255}
        self.height, self.width = self.canvas.shape
        self.labels = [int(label) for label in labels]
        self.window, self.stride, self.budget, self.num_classes = window, stride, budget, num_classes
        move, correct, wrong, invalid = (np.float32(reward) for reward in rewards)
        self.move_reward, self.correct_reward, self.wrong_reward, self.invalid_reward = (
            move,
            correct,
            wrong,
            invalid,
        )

        self.xy = (int(start_xy[0]), int(start_xy[1]))
        assert 0 <= self.xy[0] <= self.width - window
        assert 0 <= self.xy[1] <= self.height - window
        self.steps = 0
        self.moves = 0
        self.revisits = 0
        self.ending = RUNNING
        self.answer: list[int] | None = None
        self.windows = [self.xy]
        self.revealed: Mask = np.zeros(self.canvas.shape, bool)
        self.readable: Mask = np.zeros(self.canvas.shape, bool)
        self.episode_return = np.float32(0.0)
        self._reveal()

    # ---- the rules ----

    def step(self, kind: int, digits: Sequence[int] | None = None) -> tuple[np.float32, bool, bool]:
        """Take one action; (reward, terminated, truncated). After the end nothing changes, reward 0."""
        if self.ending != RUNNING:
            return np.float32(0.0), self.terminated, self.truncated
        self.steps += 1
        if kind in (UP, DOWN, LEFT, RIGHT):
            reward = self._move(kind)
        elif kind == ANSWER and self._is_answer(digits):
            reward = self._answer([int(digit) for digit in digits or []])
        else:
            self.ending = INVALID_ACTION
            reward = self.invalid_reward
        self.episode_return = np.float32(self.episode_return + reward)
        return reward, self.terminated, self.truncated

    def _move(self, kind: int) -> np.float32:
        x, y = self.xy
        if kind == UP:
            y = max(y - self.stride, 0)
        if kind == DOWN:
            y = min(y + self.stride, self.height - self.window)
        if kind == LEFT:
            x = max(x - self.stride, 0)
        if kind == RIGHT:
            x = min(x + self.stride, self.width - self.window)
        self.moves += 1
        self.xy = (x, y)
        if self.xy in self.windows:
            self.revisits += 1
        self.windows.append(self.xy)
        self._reveal()
        if self.steps == self.budget:
            self.ending = STEP_LIMIT
        return self.move_reward

    def _answer(self, digits: list[int]) -> np.float32:
        self.answer = digits
        self.ending = ANSWERED
        return self.correct_reward if self.correct else self.wrong_reward

    def _is_answer(self, digits: Sequence[int] | None) -> bool:
        if digits is None or len(digits) != len(self.labels):
            return False
        return all(0 <= digit < self.num_classes for digit in digits)

    def _reveal(self) -> None:
        """Mark the pixels of the window, and those of them that the outline leaves readable."""
        x, y = self.xy
        w = self.window
        self.revealed[y : y + w, x : x + w] = True
        # The outline covers columns x, x+1, x+w-1 and x+w, both ends included, and the same rows.
        if w >= 4:
            self.readable[y + 2 : y + w - 1, x + 2 : x + w - 1] = True

    @property
    def terminated(self) -> bool:
        return self.ending in (ANSWERED, INVALID_ACTION)

    @property
    def truncated(self) -> bool:
        return self.ending == STEP_LIMIT

    @property
    def steps_left(self) -> int:
        return self.budget - self.steps

    @property
    def correct(self) -> bool:
        return self.answer == self.labels

    @property
    def digits_correct(self) -> list[bool]:
        if self.answer is None:
            return [False] * len(self.labels)
        return [given == label for given, label in zip(self.answer, self.labels, strict=True)]

    # ---- what was seen ----

    def _per_digit(self, mask: Mask) -> list[int]:
        """Pixels of the mask in the columns of each digit: digit k owns k*W/n up to (k+1)*W/n."""
        n = len(self.labels)
        edges = [k * self.width // n for k in range(n + 1)]
        return [int(mask[:, edges[k] : edges[k + 1]].sum()) for k in range(n)]

    @property
    def stroke(self) -> Mask:
        mask: Mask = self.canvas == 0
        return mask

    @property
    def stroke_total(self) -> list[int]:
        return self._per_digit(self.stroke)

    @property
    def stroke_seen(self) -> list[int]:
        return self._per_digit(self.stroke & self.revealed)

    @property
    def stroke_seen_readable(self) -> list[int]:
        return self._per_digit(self.stroke & self.readable)

    @property
    def area_seen(self) -> int:
        return int(self.revealed.sum())

    @property
    def area_seen_readable(self) -> int:
        return int(self.readable.sum())

    # ---- what is shown ----

    def window_bits(self) -> Pixels:
        """The glimpse: uint8 (w, w), 1 = stroke."""
        x, y = self.xy
        return self.stroke[y : y + self.window, x : x + self.window].astype(np.uint8)

    def picture(self, outline: bool = True) -> Pixels:
        """The published picture, uint8 (H, W, 3), drawn with Pillow."""
        return pillow_picture(self.canvas, [self.xy], self.window, outline)

    def memory_picture(self, outline: bool = False) -> Pixels:
        """The visual-memory canvas: every window so far, uint8 (H, W, 3), drawn with Pillow."""
        return pillow_picture(self.canvas, self.windows, self.window, outline)

    def fused_full(self, readable: bool = False) -> tuple[Pixels, Pixels]:
        """(stroke, revealed), each uint8 (H, W) in {0, 1}: all that the episode has shown."""
        mask = self.readable if readable else self.revealed
        return (self.stroke & mask).astype(np.uint8), mask.astype(np.uint8)

    def fused_native(self, factor: int = 8, readable: bool = False) -> tuple[Pixels, Pixels]:
        """(stroke, revealed), each uint8 (H/factor, W/factor): pixel counts of each block of the canvas."""
        assert factor <= 15, "counts up to factor**2 must fit uint8"
        assert self.height % factor == self.width % factor == 0
        stroke, revealed = (
            np.array(
                [
                    [part[y : y + factor, x : x + factor].sum() for x in range(0, self.width, factor)]
                    for y in range(0, self.height, factor)
                ],
                dtype=np.uint8,
            )
            for part in self.fused_full(readable)
        )
        return stroke, revealed


def pillow_canvas(images: Pixels) -> Pixels:
    """Canvas of the digits uint8 (n, h, w) the way the study made it: uint8 (8h, 8nw) of 0 and 255."""
    row = 255 - np.concatenate(list(images), axis=1)
    height, width = row.shape
    enlarged = Image.fromarray(row).resize((8 * width, 8 * height), Image.Resampling.BILINEAR)
    return np.where(np.asarray(enlarged) > 200, 255, 0).astype(np.uint8)


def pillow_picture(canvas: Pixels, windows: Iterable[Sequence[int]], window: int, outline: bool) -> Pixels:
    """Grey except the windows, which show the canvas; over them, if asked, outlines: uint8 (H, W, 3)."""
    height, width = canvas.shape
    source = Image.fromarray(canvas).convert("RGB")
    picture = Image.new("RGB", (width, height), GREY)
    corners = [(int(x), int(y)) for x, y in windows]
    for x, y in corners:
        picture.paste(source.crop((x, y, x + window, y + window)), (x, y))
    if outline:
        draw = ImageDraw.Draw(picture)
        for x, y in corners:
            draw.rectangle([x, y, x + window, y + window], outline=CYAN, width=2)
    return np.asarray(picture)
