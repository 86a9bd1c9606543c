"""Several processes that share one piece of work: JAX's own runtime finds them, lets them meet, and notices deaths.

    join()                # before anything else touches JAX; under SLURM, Open MPI, GKE or on TPU pods that is all
    living = meet()       # all that are alive are here now
    leave()

Nothing here sends data: what processes make goes to a folder that all of them see.
"""

from __future__ import annotations

import os
import sys
import threading

import jax

COORDINATOR, PROCESSES, PROCESS = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
"""Environment variables for where JAX finds no cluster by itself."""


def join(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    timeout: int = 300,
    heartbeat: int = 100,
) -> None:
    """Become one of the processes of ``jax.distributed``.

    coordinator: "HOST:PORT" where process 0 listens. processes: how many there are. process: which of them this is,
    from 0. Each is taken from the environment variable above where it is not given, and else from the cluster that
    JAX finds. timeout: seconds until all have to be there; else this process says so on standard error and ends with
    code 2 (the runtime would abort it). heartbeat: seconds of silence after which a process counts as dead; the others
    go on without it, unless it was process 0, which ends all.

    Raises ValueError for values that do not fit and where there is no cluster, OSError where process 0 cannot listen.
    """
    coordinator = coordinator or os.environ.get(COORDINATOR)
    processes = _number(PROCESSES) if processes is None else processes
    process = _number(PROCESS) if process is None else process
    if coordinator is not None and not coordinator.rpartition(":")[2].isdecimal():
        raise ValueError(f"the coordinator is {coordinator!r}; expected HOST:PORT, as in 10.0.0.1:1234")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(f"this is process {process} of {processes}; expected 0 to {processes - 1}")
    # Otherwise the death of one process ends all others.
    jax.config.update("jax_enable_recoverability", True)
    where = coordinator or "the coordinator of the cluster"

    def give_up() -> None:
        print(
            f"mnistpro: error: the processes did not all meet at {where} within {timeout} s; is process 0 reachable "
            "there, and was every process started?",
            file=sys.stderr,
            flush=True,
        )
        os._exit(2)

    # JAX aborts where it cannot connect; this comes first, with a sentence.
    watch = threading.Timer(timeout, give_up)
    watch.daemon = True
    watch.start()
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=timeout + 60,
            heartbeat_timeout_seconds=heartbeat,
        )
    except ValueError as error:
        raise ValueError(
            f"JAX finds no cluster here ({error}); say where process 0 is, how many processes there are, and which one "
            f"this is (options, or {COORDINATOR}, {PROCESSES} and {PROCESS})"
        ) from error
    except jax.errors.JaxRuntimeError as error:
        raise OSError(f"process 0 cannot listen at {where}: {_first_line(error)}") from error
    finally:
        watch.cancel()


def leave() -> None:
    """The counterpart of ``join``. Process 0, on whom the others depend, waits until they have left."""
    if jax.process_index() == 0:
        meet()  # nobody else comes: over when all are gone
    jax.distributed.shutdown()


def meet() -> list[int]:
    """Wait until every living process is here. Returns their numbers, ascending, the same list to all.

    Whoever dies meanwhile is not waited for longer than ``join`` said. Without ``join``: [0].
    """
    if jax.process_count() == 1:
        return [0]
    # Experimental, and for several processes alone.
    from jax.experimental.multihost_utils import ProcessFailureError, live_devices

    while True:
        try:
            with live_devices(jax.devices()) as devices:
                living = sorted({device.process_index for device in devices})
            return living
        except ProcessFailureError:  # all survivors learn it here, and meet again
            continue


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{variable} is {text!r}; expected a whole number") from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
