"""Opens a run's model in this process or in workers, as configured."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Final

from audit.asking.progress import Say
from audit.asking.workers.base import Here, Workers
from audit.configuration.schema import AuditConfig
from audit.engines.base import AnswerStore
from audit.engines.libraries import need_libraries
from audit.errors import WorkerError
from audit.runs.store import RunFolder

ENGINE_LOG: Final = "engine.log"  # the run's file with the output of the model's library while it loads


def check_installed(config: AuditConfig) -> None:
    """Raise AuditError, before a run folder is made, if a library for the run's model or strategy is missing."""
    from audit.engines.open import choose_engine_for
    from audit.engines.resolve import packaged_file

    model, engine = config.model, config.engine
    if engine.ray is not None:
        from audit.asking.workers import cluster

        cluster.check_installed(engine)
    elif choose_engine_for(model, engine, writes=True).name != "openai" and model.path.startswith("embedded:"):
        packaged_file(model.path)
    examples, knowledge = config.strategy.examples, config.strategy.knowledge
    if examples is not None and examples.choice == "similar":
        from audit.engines import embedding

        embedding.check_installed(examples.embedder)
    if knowledge is not None and knowledge.source == "comet":
        need_libraries(f"COMET model {knowledge.path}")


def open_workers(
    config: AuditConfig, folder: RunFolder, shared: object, *, writes: bool, how: str, n_shards: int | None, say: Say
) -> tuple[Workers, float]:
    """Open the model of a run in no more workers than missing shards; return them and the seconds that it took."""
    clock = time.perf_counter()
    open_them = _on_ray if config.engine.ray is not None else _here if config.engine.replicas == 1 else _replicas
    workers = open_them(config, folder, shared, writes=writes, n_shards=n_shards, say=say)
    load_s = time.perf_counter() - clock
    facts = workers.known.facts
    each = f"{workers.n} x " if workers.n > 1 else ""
    say(f"{each}{facts.name} {facts.version} on {facts.device}, {facts.dtype}; {how}")
    if workers.known.why:
        say(f"why: {workers.known.why}")
    return workers, load_s


def _here(
    config: AuditConfig, folder: RunFolder, shared: object, *, writes: bool, n_shards: int | None, say: Say
) -> Workers:
    # torch, transformers and vLLM take seconds to import, and a complete run needs none of them.
    from audit.engines.open import choose_engine, open_model
    from audit.engines.resolve import say_unpacking

    choice = choose_engine(config.engine, writes=writes)
    is_local = choice.name not in ("openai", "planted")
    if is_local:
        say(f"loading {config.model.path} with {choice.name}; progress is written to {folder.path / ENGINE_LOG} ...")
        if unpacking := say_unpacking(config.model):
            say(unpacking)
    elif config.model.base_url is not None:
        say(f"asking {config.model.base_url} for {config.model.path} ...")
    with folder.output_in(ENGINE_LOG) if is_local else nullcontext():  # no library of ours talks to a server
        model = open_model(config.model, config.engine, seed=config.seed, writes=writes)
        model.say_checked()
    keep: Callable[[str], AnswerStore] = folder.part_begun
    return Here(model, shared, keep)


def _replicas(
    config: AuditConfig, folder: RunFolder, shared: object, *, writes: bool, n_shards: int | None, say: Say
) -> Workers:
    from audit.asking.workers.devices import shares
    from audit.asking.workers.local import LocalWorker
    from audit.asking.workers.pool import WorkerPool
    from audit.asking.workers.serve import Opening
    from audit.engines.open import choose_engine
    from audit.engines.resolve import resolve_model, say_unpacking

    choice = choose_engine(config.engine, writes=writes)
    if choice.name == "openai":
        raise WorkerError(
            f"engine.replicas={config.engine.replicas} is for models on this machine; one process sends "
            "engine.server.concurrency requests at a time to a server: leave engine.replicas=1"
        )
    own = shares(config.engine, choice.name)
    if len(own) == 1:  # engine.replicas=auto with at most one GPU
        return _here(config, folder, shared, writes=writes, n_shards=n_shards, say=say)
    own = own[: max(n_shards, 1)] if n_shards is not None else own
    if unpacking := say_unpacking(config.model):
        say(unpacking)
    resolve_model(config.model)  # download or unpack once, not in each worker
    logs = [f"engine-{number}.log" for number in range(1, len(own) + 1)]
    where = f"{logs[0]} to {logs[-1]}" if len(logs) > 1 else logs[0]
    say(
        f"loading {config.model.path} with {choice.name} in {len(own)} processes ({own[0].on}, and so on); "
        f"progress is written to {where} of {folder.path} ..."
    )
    opening = pickle.dumps(Opening(config.model, config.engine, config.seed, writes, shared))
    with ExitStack() as opened:
        workers = [
            LocalWorker(
                number,
                share.on,
                share.environment,
                opening,
                log=folder.path / log,
                stream=opened.enter_context(folder.appending(log)),
            )
            for number, (share, log) in enumerate(zip(own, logs, strict=True), start=1)
        ]
        return WorkerPool(workers, hang_s=config.engine.hang_s, say=say)


def _on_ray(
    config: AuditConfig, folder: RunFolder, shared: object, *, writes: bool, n_shards: int | None, say: Say
) -> Workers:
    from audit.asking.workers.cluster import connect, open_pool
    from audit.asking.workers.serve import Opening

    opening = Opening(config.model, config.engine, config.seed, writes, shared)
    with folder.output_in(ENGINE_LOG):
        ray = connect(config.engine)
    return open_pool(ray, opening, config.engine, n_shards=n_shards, say=say, shown=config.model.path)
