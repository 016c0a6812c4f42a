"""Checks after a run: a sample of its prompts is asked again in another way, to tell how far ratings can be trusted.

A sample of an ``expected`` run is answered in words, since a model may write a number other than its probabilities
suggest, or none. A few prompts are asked again in another order and other batches, since rounding differs with them.

If ``elicitation.noise_formats`` names number formats, those few are also asked in these, in the same order and batches,
so that only the format differs. By default none are: in bfloat16 a CPU that emulates it takes two to four times as long
a prompt as in float32 (8 s for the embedded model in place of 2 to 4 s, for prompts that share little); float32 takes
twice the memory of a model in bfloat16, which may fill a GPU; and vLLM cannot change the format of a loaded model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.asking.collect import Session
from audit.asking.plan import Plan
from audit.asking.progress import Progress, Say
from audit.asking.workers.base import Course
from audit.configuration.schema import AuditConfig
from audit.errors import ModelError
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.base import Table
from audit.tables.ratings import ASKED_AGAIN, ASKED_IN_FORMATS, ELICITATION_SAMPLE, MANIPULATED, ElicitedRating, Status
from audit.tasks.asked_again import VARIED, ask_missing
from audit.tasks.intensity.ask import again, job_outside_grid
from audit.tasks.intensity.calibration import ends_of
from stimuli.languages import pack_replies
from stimuli.manipulation import LEAST, Manipulated, manipulated

if TYPE_CHECKING:
    from audit.asking.elicitation.base import Elicitation
    from audit.asking.elicitation.ends import EndSample
    from stimuli.prompts import Scale


@dataclass(frozen=True)
class Check:
    """Prompts that are asked once more."""

    table: Table  # where the run folder keeps the answers
    title: str  # for the progress line
    option: str  # that sets the number of prompts
    in_words: bool  # whether the model writes its answer, whatever the run's own elicitation
    places: tuple[int, ...]  # prompt_index of the prompts, in the order to ask
    notes: Mapping[tuple[str, str], str]  # what limits the sample, by dimension and variant
    dtype: str = ""  # the number format to compute in; empty for the run's own

    @property
    def name(self) -> str:
        """Its name in the manifest."""
        return self.table.name


def checks_of(plan: Plan, folder: RunFolder, manifest: Manifest) -> Iterator[Check]:
    """Yield the checks that have prompts left to ask, or that the manifest does not mention yet."""
    from audit.asking.elicitation.sample import choose_again, choose_sample

    config = plan.config
    n_sample = config.elicitation.check_sample if config.elicitation_method == "expected" else 0
    n_again = config.elicitation.noise_sample
    if not (n_sample or n_again):
        return
    ratings = folder.ratings_of(manifest)
    wanted = []
    if n_sample:
        invented = [dimension.name for dimension in plan.grid.dimensions if dimension.placebo]
        sample = choose_sample(ratings, size=n_sample, seed=config.seed, left_out=invented)
        places = tuple(sample.places.tolist())
        title = "answering a sample in words"
        wanted.append(Check(ELICITATION_SAMPLE, title, "elicitation.check_sample", True, places, sample.notes))
    if n_again:
        rated = ratings.loc[ratings["status"] == Status.RATED.value]
        places = tuple(choose_again(rated, size=n_again, seed=config.seed).tolist())
        wanted.append(Check(ASKED_AGAIN, "asking a sample again", "elicitation.noise_sample", False, places, {}))
        for dtype in config.elicitation.noise_formats:
            title = f"asking a sample in {dtype}"
            option = "elicitation.noise_formats"
            wanted.append(Check(ASKED_IN_FORMATS[dtype], title, option, False, places, {}, dtype))
    for check in wanted:
        found = manifest.checks.get(check.name)
        there = set(folder.table(check.table).frame()["prompt_index"])
        if found is None or (not found.refused and set(check.places) - there):
            yield check


def make_checks(session: Session, manifest: Manifest, *, say: Say) -> Manifest:
    """Ask what the run's checks still lack, part by part. Return the manifest with them; it is not written here."""
    plan, folder = session.plan, session.folder
    scale = plan.grid.variant.scale
    assert scale is not None
    for check in list(checks_of(plan, folder, manifest)):
        how = "generate" if check.in_words else plan.config.elicitation_method
        elicitation = elicitation_of(plan.config, scale, how, ends_of(folder, manifest))
        own = manifest.model.dtype
        varied = f"number format ({check.dtype} in place of {own})" if check.dtype else VARIED
        noted = {
            "n_prompts": len(check.places),
            **({} if check.in_words else {"varied": varied}),
            **({"notes": {" ".join(key): note for key, note in check.notes.items()}} if check.notes else {}),
        }
        try:
            _ask_missing(check, session, elicitation)
        # An engine that reads only probabilities cannot write; a format may fail for any reason. The rest stands.
        except (NotImplementedError, ModelError) as error:
            if not (check.dtype or isinstance(error, NotImplementedError)):
                raise
            why = str(error).strip().split("\n")[0] if check.dtype else "the engine cannot write text"
            noted["refused"] = why
            say(f"{check.title}: left out, because {why}; to skip it, set {check.option}={'[]' if check.dtype else 0}")
        manifest = manifest.adding("checks", **{check.name: noted})
    return manifest


def manipulation_is_missing(plan: Plan, manifest: Manifest) -> bool:
    """Whether prompts without identities are missing, or cover fewer narratives than now requested."""
    size, narratives = plan.config.elicitation.manipulation, plan.grid.narratives
    if not size or plan.before or plan.strategy.brings:
        return False
    noted = manifest.checks.get("manipulation")
    if noted is None:
        return True
    n = len(narratives.narratives)
    # Earlier versions asked fewer and noted no number. Today's default alone must not make their runs ask again.
    wanted, asked = (min(max(each, n), n + len(narratives.others)) for each in (size, noted.n_wanted or LEAST))
    return wanted > asked


def check_manipulation(session: Session, manifest: Manifest) -> Manifest:
    """Ask the missing prompts without identities, part by part. Return the manifest; it is not written here."""
    plan, folder = session.plan, session.folder
    if not manipulation_is_missing(plan, manifest):
        return manifest
    scale, config = plan.grid.variant.scale, plan.config
    assert scale is not None
    size = config.elicitation.manipulation
    wanted = list(manipulated(plan.grid, size=size, seed=config.seed, nobody=config.nobody))
    kept: dict[tuple[str, str], dict[Any, Any]] = {
        (row["narrative_id"], row["kind"]): row for row in folder.table(MANIPULATED).frame().to_dict("records")
    }
    order = {key: place for place, key in enumerate(dict.fromkeys([*map(_key, wanted), *kept]))}
    missing = [each for each in wanted if _key(each) not in kept]
    parts = [missing[start : start + manifest.shard_size] for start in range(0, len(missing), manifest.shard_size)]
    elicitation = elicitation_of(config, scale, config.elicitation_method, ends_of(folder, manifest))
    with Progress(len(order), there=len(kept), name="asking without identities") as progress:

        def ask(asked: Sequence[Manipulated]) -> Course[None]:
            with progress.part(len(asked)) as part:
                first, last = (order[_key(each)] for each in (asked[0], asked[-1]))
                name = f"check without identities, prompts {first} to {last}"
                outcomes = yield job_outside_grid(elicitation, [each.cell for each in asked], part, name)
            kept.update(zip(map(_key, asked), manipulated_rows(asked, outcomes), strict=True))
            folder.table(MANIPULATED).write([kept[key] for key in sorted(kept, key=order.__getitem__)])

        for _ in session.workers.run(map(ask, parts)):
            pass
    n_available = len(plan.grid.narratives.narratives) + sum(map(plan.grid.can_show, plan.grid.narratives.others))
    return manifest.adding(
        "checks", manipulation={"n_prompts": len(kept), "n_wanted": size, "n_available": n_available}
    )


def _key(each: Manipulated) -> tuple[str, str]:
    return each.narrative_id, each.kind


def manipulated_rows(asked: Sequence[Manipulated], outcomes: Sequence[ElicitedRating]) -> list[dict[str, Any]]:
    """Return rows of ``tables.MANIPULATED``: prompts without identities, and their outcomes."""
    return [
        {
            "narrative_id": each.narrative_id,
            "kind": each.kind,
            "emotion": each.cell.narrative.emotion,
            **_answer(outcome),
        }
        for each, outcome in zip(asked, outcomes, strict=True)
    ]


def _ask_missing(check: Check, session: Session, elicitation: Elicitation) -> None:
    """Ask the incomplete parts of a check."""
    ask_missing(
        session,
        check.table,
        check.places,
        lambda places, part: again(session, elicitation, places, part, check.dtype),
        lambda outcomes: list(map(_answer, outcomes)),
        title=check.title,
    )


def _answer(outcome: ElicitedRating) -> dict[str, Any]:
    """Return a prompt's outcome as the tables of checks hold it."""
    return {"status": str(outcome.status), "intensity": outcome.intensity, "response": outcome.response}


def elicitation_of(config: AuditConfig, scale: Scale, method: str, ends: EndSample | None = None) -> Elicitation:
    """Return the elicitation of a method, with the configuration's settings; ``ends`` is from :func:`ends_of`."""
    from audit.asking.elicitation.expected import ExpectedElicitation
    from audit.asking.elicitation.generate import GenerateElicitation

    if method == "expected":
        return ExpectedElicitation.of(scale, config.elicitation.max_pruned_points, ends)
    replies = pack_replies(config.language)
    return GenerateElicitation(scale, config.elicitation.max_tokens, config.elicitation.parser, replies)
