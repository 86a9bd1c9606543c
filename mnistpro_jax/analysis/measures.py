"""What the stored episodes of several runs say, as sheets. Definitions: ``mnistpro_jax.rollouts.metrics``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnistpro_jax.analysis.accuracy import digits_sheet, main_sheet, topology_sheet
from mnistpro_jax.analysis.calls import calls_sheet
from mnistpro_jax.analysis.comparisons import paired_sheet
from mnistpro_jax.analysis.coverage import conditioned_sheet, exploration_sheet
from mnistpro_jax.analysis.sheet import Sheet
from mnistpro_jax.analysis.stopping import endings_sheet, stopping_sheet
from mnistpro_jax.runs.stored import StoredRun


def sheets(runs: Sequence[StoredRun]) -> list[Sheet]:
    """All tables that stored episodes alone can fill. A run without counted episodes is listed in the first."""
    makers: tuple[Callable[[Sequence[StoredRun]], Sheet | None], ...] = (
        main_sheet,
        paired_sheet,
        exploration_sheet,
        endings_sheet,
        digits_sheet,
        conditioned_sheet,
        topology_sheet,
        stopping_sheet,
        calls_sheet,
    )
    made = [maker(runs) for maker in makers]
    return [sheet for sheet in made if sheet is not None and sheet.rows]
