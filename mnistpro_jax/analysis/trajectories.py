"""Episodes for the report's viewer: canvases, windows, what was said, and a thumbnail of each.

A canvas is stored once, as a PNG of one bit a pixel, however many runs show it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from mnistpro_jax.render.seen import seen_mask
from mnistpro_jax.runs.canvases import canvases
from mnistpro_jax.runs.stored import StoredRun

Pixels = npt.NDArray[np.uint8]

_THUMB_FACTOR = 2  # canvas pixels a thumbnail pixel
_TEXT = 400  # characters of a reply that are kept
# Ink and paper, seen and unseen; the path and where it begins and ends.
_PALETTE = ((255, 255, 255), (15, 23, 42), (226, 229, 234), (186, 193, 203), (37, 99, 235), (234, 88, 12))


def png_url(image: Any) -> str:
    """A Pillow image as a data URL."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def canvas_url(canvas: Pixels) -> str:
    """A canvas, uint8 (H, W) of 0 and 255, as a data URL of one bit a pixel."""
    return png_url(Image.fromarray(canvas).convert("1"))


def thumbnail_url(canvas: Pixels, windows: Sequence[Sequence[int]], window: int) -> str:
    """The canvas at half its size, pale where it was never seen, with the way of the window's centre."""
    step = _THUMB_FACTOR
    ink = (canvas == 0)[::step, ::step]
    seen = seen_mask(canvas.shape, windows, window)[::step, ::step]
    image = Image.fromarray(
        np.where(seen, np.where(ink, 1, 0), np.where(ink, 3, 2)).astype(np.uint8), mode="P"
    )
    image.putpalette([value for colour in _PALETTE for value in colour])
    draw = ImageDraw.Draw(image)
    centres = [((x + window / 2) / step, (y + window / 2) / step) for x, y in windows]
    if len(centres) > 1:
        draw.line(centres, fill=4, width=2)
    for (x, y), colour in ((centres[0], 4), (centres[-1], 5)):
        draw.ellipse([x - 4, y - 4, x + 4, y + 4], fill=colour)
    return png_url(image)


def viewer_data(runs: Sequence[StoredRun], limit: int) -> dict[str, Any]:
    """What the viewer's script reads: {"canvases": {key: data URL}, "runs": [...]}, JSON-ready.

    limit: episodes a run, its first ones. Raises DataError where the images are not there.
    """
    shared: dict[str, str] = {}
    listed = []
    for run in runs:
        episodes = []
        for record, canvas in canvases(run.records[:limit]):
            key = f"{record['source']} {record['split']} {' '.join(map(str, record['indices']))}"
            shared.setdefault(key, canvas_url(canvas))
            episodes.append(
                {
                    "number": record["episode"],
                    "canvas": key,
                    "windows": record["windows"],
                    "actions": record["actions"],
                    "label": "".join(map(str, record["labels"])),
                    "answer": None if record["answer"] is None else "".join(map(str, record["answer"])),
                    "ending": record["ending"].lower().replace("_", " "),
                    "right": record["correct"],
                    "seen": round(record["stroke_coverage"], 4),
                    "said": replies(run.path, record),
                    "thumb": thumbnail_url(canvas, record["windows"], run.setting.window),
                }
            )
        listed.append(
            {
                "name": run.name,
                "level": run.setting.level,
                "window": run.setting.window,
                "outline": run.setting.outline,
                "total": len(run.records),
                "episodes": episodes,
            }
        )
    return {"canvases": shared, "runs": listed}


def replies(folder: Path, record: dict[str, Any]) -> list[str]:
    """What a model replied on each step, shortened, from the log of ``mnistpro run``; [] without one."""
    path = folder / "log" / f"{record['episode']:04d}.jsonl"
    if not path.is_file():
        return []
    said: dict[int, str] = {}
    for line in path.read_bytes().split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a torn last line
        if isinstance(event, dict) and event.get("event") == "turn" and isinstance(event.get("step"), int):
            text = str(event.get("text") or "")
            said[event["step"]] = text if len(text) <= _TEXT else text[:_TEXT] + " \u2026"
    return [said.get(step, "") for step in range(record["steps"])]
