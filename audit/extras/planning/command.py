"""``plan``: says what a run will take before anything is asked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.asking.progress import duration
from audit.asking.shown_prompt import shown_prompt
from audit.cli.terminal.base import Command, writing_out
from audit.cli.terminal.jobs import each_job, overrides_help, split_arguments
from audit.cli.terminal.options import Option, Usage, a_number, a_path, option_lines, whole_from
from audit.cli.terminal.printing import disk_size, note, print_table, say, tell
from audit.errors import ConfigError
from audit.extras.planning.disk import free_at
from audit.tables.formatting import SCOPES, dimension_title, plural

if TYPE_CHECKING:
    from audit.configuration.schema import AuditConfig
    from audit.extras.planning.forecast import Forecast

_PROBE: Final[Option[float | None]] = Option(
    "probe",
    a_number,
    None,
    "time limit of the probe in seconds; default 40, or 0 (no probe) for a server's model",
    "SECONDS",
)
_TOKENS: Final = Option("tokens", whole_from(0), 1, "0 = do not count tokens; a million prompts take a minute")
_LIKE: Final[Option[Path | None]] = Option(
    "like",
    a_path,
    None,
    "a run of the same design: the spread of its ratings shows what gap this run could find",
    "RUN_DIR",
)
_HOURS: Final[Option[float | None]] = Option("hours", a_number, None, "the hours you have: show what fits", "HOURS")
_INPUT: Final[Option[float | None]] = Option("price.input", a_number, None, "price of a million input tokens", "PRICE")
_OUTPUT: Final[Option[float | None]] = Option(
    "price.output", a_number, None, "price of a million output tokens", "PRICE"
)
_MOST: Final[Option[float | None]] = Option("price.most", a_number, None, "the money you have: show what fits", "PRICE")
_OUT: Final[Option[Path | None]] = Option("out", a_path, None, "write the plan as JSON to this file", "FILE")
_OPTIONS: Final[tuple[Option[Any], ...]] = (_PROBE, _TOKENS, _LIKE, _HOURS, _INPUT, _OUTPUT, _MOST, _OUT)
_USAGE: Final = Usage("plan", "[-m] [OVERRIDE ...]", options=_OPTIONS)
PROBE_S: Final = 40.0

_HELP: Final = """\
usage: python -m audit plan [-m] [OVERRIDE ...] [OPTION ...]

Estimates what `run` with the same overrides will take: prompts, tokens, time on this machine, money and disk, and the
gap that it could detect. To measure the time, asks a few prompts as the run would and drops the answers. Keeps nothing
but the model, which is downloaded or unpacked as by `run`; with probe=0, only the tokenizer of a hub model.

options:
{options}

"""


def _plan(words: Sequence[str]) -> int:
    given, overrides = split_arguments(_USAGE, words)
    options = {option.name: given[option] for option in _OPTIONS}
    for name, value in options.items():
        if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"{name}={given.texts[name]}: must be a number of at least 0")
    priced = (options["price.input"] is not None, options["price.output"] is not None)
    if any(priced) != all(priced):
        raise ConfigError(
            "price.input and price.output must be given together: price.input=PRICE price.output=PRICE (0 is allowed)"
        )
    if options["price.most"] is not None and not all(priced):
        raise ConfigError("price.most needs the price of tokens: price.input=PRICE price.output=PRICE")
    if options["hours"] is not None and options["probe"] == 0:
        raise ConfigError("hours needs a probe, which measures the time; leave out probe=0")
    plans: list[dict[str, Any]] = []
    code, _ = each_job(overrides, lambda config, _: plans.append(_one(config, options)))
    if len(plans) > 1:
        _show_sum(plans)
    if (out := options["out"]) is not None:
        content = plans[0] if len(plans) == 1 else plans
        with writing_out(out):
            out.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return code


def _one(config: AuditConfig, options: dict[str, Any]) -> dict[str, Any]:
    """Plan one run, print the plan, and return it as plain values."""
    from audit.extras.planning.forecast import WORDED, detectable, forecast, unlike
    from audit.tasks.pipeline import announce
    from audit.tasks.registry import TASKS

    task = TASKS[config.task.kind]
    plan = task.plan(config)
    announce(plan, say)
    served = config.model.base_url is not None
    if options["like"] is not None:  # fail before the probe takes its time
        unlike(options["like"], plan)
        detectable(options["like"], plan)
    if options["hours"] is not None and served and options["probe"] is None:
        raise ConfigError(
            "hours needs a probe, which measures the time; a server's model costs money, so ask for it: probe=60"
        )
    probe_s = options["probe"] if options["probe"] is not None else 0.0 if served else PROBE_S
    found = forecast(task, plan, probe_s=probe_s, count_tokens=bool(options["tokens"]), say=say)
    for line in shown_prompt(next(task.records(plan))):
        say(line)
    lines = [("what", "how many"), *_counted(found)]
    lines += _timed(found, config, writes=plan.kind == "replies")
    price = _price(found, options)
    lines += [("money", price[1])] if price else []
    lines.append(("disk", f"about {disk_size(found.bytes_on_disk)}, and {disk_size(free_at(found.folder))} are free"))
    analysed = plan.kind == "ratings" and (found.folder / "tables" / "gap.csv").is_file()
    like = options["like"] or (found.folder if analysed else None)
    gaps = [] if like is None else detectable(like, plan)
    for gap in gaps:
        of = "any such wordings" if gap.scope == WORDED else SCOPES.get(gap.scope, gap.scope)
        title = f"{dimension_title(gap.dimension)} ({gap.variant}), {of}"
        wanted = ""
        if gap.n_for_wanted is not None:
            enough = (
                "no number of narratives" if math.isinf(gap.n_for_wanted) else plural(gap.n_for_wanted, "narrative")
            )
            wanted = f"; {config.statistics.wanted:g} points: {enough}"
        lines.append(
            (f"gap found, {title}", f"{gap.points:.2g} points, {plural(gap.n_narratives, 'narrative')}{wanted}")
        )
    print_table(lines)
    if like is None:
        note("to see what gap this run could find, give like=RUN_DIR: a run of the same design, however small")
    elif gaps:
        note(f"gaps that would be detected {config.statistics.power:.0%} of the time, if ratings vary as in {like}")
        if others := unlike(like, plan):
            note(f"{like} has another design ({', '.join(others)} differ), so its ratings may vary more or less")
    elif plan.grid.narratives is None or len(plan.grid.narratives.narratives) < 2:
        note("what gap this run could find is unknown: an interval needs at least 2 narratives")
    else:
        note(f"{like} has no standard error to plan with: it needs at least 2 narratives")
    fits = _fitting(found, plan, gaps, price, options)
    for text in fits:
        note(text)
    return {
        "command_is_for": plan.announced,
        "run_dir": str(found.folder),
        "calls": [asdict(each) for each in found.calls],
        "n_too_long": found.n_too_long,
        "n_characters": found.n_characters,
        "requests_most": dict(found.requests),
        "tokens_read": found.tokens_read,
        "tokens_written_most": found.tokens_written_most,
        "seconds": found.seconds,
        "seconds_fixed": found.fixed_s,
        "seconds_low": found.low_s,
        "seconds_high": found.high_s,
        "probe": None if found.probe is None else asdict(found.probe),
        "probe_per_s": None if found.probe is None else found.probe.per_s,
        "price_most": None if price is None else price[0][0],
        "bytes_on_disk": found.bytes_on_disk,
        "detectable": [
            {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(gap).items()}
            for gap in gaps
        ],
        "fits": fits,
    }


def _counted(found: Forecast) -> list[tuple[str, str]]:
    lines = []
    for each in found.calls:
        left = "" if each.n_left == each.n else f" ({each.n - each.n_left:,} of {each.n:,} are there)"
        lines.append((each.what, f"{'' if each.exact else 'at most '}{each.n_left:,}{left}"))
    read = found.tokens_read
    if read is None:
        lines.append(("tokens read", f"not counted: {found.n_characters:,} characters"))
    else:
        own = found.calls[0]
        exact = own.tokens_read == own.tokens_read_most
        lines.append(
            (
                "tokens read by prompts",
                f"{own.tokens_read:,}, exactly" if exact else _range(own.tokens_read, own.tokens_read_most),
            )
        )
        if len(found.calls) > 1:
            lines.append(("tokens read in all", ("about " if exact else "") + _range(*read)))
    if found.requests:
        most = ", ".join(f"{n} with elicitation.ends={way}" for way, n in found.requests.items())
        lines.append(("requests a prompt", f"at most {most}"))
    lines.append(("tokens written", f"at most {found.tokens_written_most:,}"))
    if found.n_too_long:
        lines.append(("too long", f"{plural(found.n_too_long, 'prompt')}: these will fail; raise model.max_model_len"))
    return lines


def _range(low: int | None, high: int | None) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _timed(found: Forecast, config: AuditConfig, *, writes: bool) -> list[tuple[str, str]]:
    if found.seconds is None or found.probe is None:
        why = "not probed (probe=0)"
        if config.engine.batch:
            why = "not probed: the host decides when a batch is answered"
        elif config.model.base_url is not None:
            why = "not probed: a server's model costs money; probe=60 asks it"
        return [("time", why if found.calls[0].n_left else "all prompts are answered")]
    probe = found.probe
    spread = f"{min(probe.rates):.3g} to {max(probe.rates):.3g}"
    rate = f"{probe.per_s:.3g} prompts/s ({spread}), of {plural(probe.n, 'prompt')}"
    if config.engine.ray is not None or config.engine.replicas != 1:
        rate += ", by one process"
    left_out = "; by one process: the cluster was not tried" if config.engine.ray is not None else ""
    if writes:
        left_out += "; without scoring replies"
    about = f"about {duration(found.seconds)} ({duration(found.low_s or 0)} to {duration(found.high_s or 0)})"
    return [("time", about + left_out), ("rate, from the probe", rate)]


def _price(found: Forecast, options: dict[str, Any]) -> tuple[tuple[float, float, float], str] | None:
    """Return the cost of :meth:`Forecast.money` and its wording; None without prices."""
    of_input, of_output = options["price.input"], options["price.output"]
    if of_input is None or of_output is None:
        return None
    paid = found.money(of_input, of_output)
    supposed = "" if found.tokens_read is not None else ", if no token has fewer than two characters"
    return paid, f"at most {paid[0]:,.2f}{supposed}; retries are not included"


def _fitting(
    found: Forecast,
    plan: Any,
    gaps: Sequence[Any],
    price: tuple[tuple[float, float, float], str] | None,
    options: dict[str, Any],
) -> list[str]:
    """Say which overrides take as many narratives as are wanted, or as time and money allow."""
    from audit.extras.planning.forecast import subset

    if plan.grid.narratives is None:
        return []
    said = []
    wanted = f"{plan.config.statistics.wanted:g} points" if plan.config.statistics.wanted is not None else ""
    asked = [gap for gap in gaps if gap.n_for_wanted is not None]
    enough = [gap.n_for_wanted for gap in asked if math.isfinite(gap.n_for_wanted)]
    if enough:
        n_emotions = len({each.emotion for each in plan.grid.narratives.narratives})
        each = math.ceil(max(enough) / n_emotions)
        where = "" if len(enough) == len(asked) else ", where some number of narratives finds them at all"
        said.append(
            f"{wanted} are found by stimuli.situations_per_emotion={each} "
            f"({max(enough):,.0f} narratives are enough), if there are as many{where}"
        )
    if options["hours"] is not None and found.seconds is not None:
        within = options["hours"] * 3600
        share = 1.0 if found.seconds <= within else (within - found.fixed_s) / max(found.grows_s, 1e-9)
        said.append(f"hours={options['hours']:g}: {subset(plan, share)}")
    if options["price.most"] is not None and price is not None:
        (paid, beside, all_of_it), most = price[0], options["price.most"]
        share = 1.0 if paid <= most else (most - beside) / max(all_of_it, 1e-9)
        said.append(f"price.most={most:g}: {subset(plan, share)}")
    return said


def _show_sum(plans: Sequence[dict[str, Any]]) -> None:
    n = sum(plan["calls"][0]["n_left"] for plan in plans)
    said = [plural(n, "prompt")]
    if all(plan["seconds"] is not None for plan in plans):
        said.append(f"about {duration(sum(plan['seconds'] for plan in plans))}")
    if all(plan["price_most"] is not None for plan in plans):
        said.append(f"at most {sum(plan['price_most'] for plan in plans):,.2f} of money")
    tell(f"all {len(plans)} runs: {', '.join(said)}")


COMMAND: Final = Command(
    "plan",
    "estimate what a run will take: prompts, tokens, time, money, disk",
    lambda: _HELP.format(options=option_lines(*_OPTIONS)) + overrides_help("plan"),
    _plan,
    usages=(_USAGE,),
    overrides=True,
)
