"""A model as judge compares the replies of two runs. The steps, in order: pairs, answers, table, page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from audit.asking.conversations import narratives_of
from audit.asking.elicitation.plain_text import answer_of, split_words
from audit.asking.progress import Progress
from audit.configuration.engine import EngineConfig
from audit.configuration.model import ModelConfig
from audit.engines.base import OpenModel
from audit.errors import ConfigError, StoreError
from audit.runs.differences import accepted_in, choices_of, identity_of, label_runs
from audit.runs.manifest import Judge, JudgementManifest, Manifest
from audit.runs.model_names import model_name
from audit.runs.parts import part_name
from audit.runs.provenance import versions
from audit.runs.store import JudgementFolder, RunFolder
from audit.tables.base import by_name, dictionary
from audit.tables.formatting import plural
from audit.tables.preference import JUDGED_PAIRS, PAIRS, PREFERENCE
from audit.tables.replies import SCORED
from audit.tasks.measures.base import Reply
from audit.tasks.registry import task_of
from audit.tasks.reply.judge.pairwise import MAX_TOKENS, judge_pairs
from audit.tasks.reply.judge.rubric import judge_facts
from stimuli.hashes import fingerprint
from stimuli.rubrics import Rubric, load_rubric

MAX_MODEL_LEN: Final = 2048
"""Context in tokens, as for a judge of single replies. A longer question fails."""
_PART: Final = 64
"""Smallest number of pairs in a part: an interruption loses at most one part."""
_PAIR: Final = ("dimension", "narrative_id", "perceiver", "experiencer")


PREFERENCE_TABLES: Final = by_name(JUDGED_PAIRS, PREFERENCE)
"""Tables of a folder in which a model compares the replies of two runs."""


@dataclass(frozen=True)
class JudgeSettings:
    """The settings of the judge."""

    model: str | None  # a folder or a hub id
    method: Literal["expected", "generate"] = "expected"
    rubric: str = "empathy"
    rubric_file: Path | None = None  # None: the packaged one
    criterion: str | None = None  # of the rubric; None: its first
    n_narratives: int | None = None  # to draw; None: all
    seed: int = 0  # draws the narratives and seeds the engine
    engine: Literal["own", "auto", "vllm", "transformers"] = "own"  # the first run's
    base_url: str | None = None
    api_key_env: str | None = None  # the environment variable with the key of that server


@dataclass(frozen=True)
class Judgement:
    """A finished comparison by a judge."""

    path: Path
    page: Path
    labels: tuple[str, str]
    preference: pd.DataFrame  # columns of PREFERENCE
    confidence: float  # of its intervals
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class RunOfReplies:
    """A complete run of replies."""

    folder: Path
    manifest: Manifest
    replies: pd.DataFrame  # columns of REPLIES
    narratives: Mapping[str, str]  # by identifier, as the prompts showed them


def judge_runs(
    folders: Sequence[Path],
    asked: JudgeSettings,
    *,
    out: Path | None,  # None: a name made of both runs and the judge's settings, in `reports_dir`
    reports_dir: Path,
    command: str,
    say: Callable[[str], None],
) -> Judgement:
    """Have a model compare the replies of two complete runs, which are only read: each pair in both orders.

    Pairs that the same judge has judged with the same settings are not judged again; if a ModelError ends the
    judging, what was judged is kept.
    """
    if not asked.model:
        raise ConfigError(
            "model= must be given: the folder or hub id of a judge, a model that follows instructions "
            "(model=embedded:smollm2 shows that it works, and judges nothing)"
        )
    _card(asked)  # a secret in the address is refused before the command is written anywhere
    rubric = load_rubric(asked.rubric, asked.rubric_file)
    criterion = asked.criterion or next(iter(rubric.criteria))
    rubric.pair_prompt(criterion, experiencer="", narrative="", first="", second="", answers="")  # raises StimulusError
    first, second = two_runs(folders)
    paired, remarks = paired_replies(first, second, asked)
    identity = {
        "runs": [identity_of(run.manifest) for run in (first, second)],
        "replies": [fingerprint({"text": run.replies["text"].tolist()}) for run in (first, second)],
        "judge": {
            "model": asked.model,
            "method": asked.method,
            "rubric_sha256": rubric.sha256,
            "criterion": criterion,
            "n_narratives": asked.n_narratives,
            "seed": asked.seed,
            "max_tokens": MAX_TOKENS,
            "max_model_len": MAX_MODEL_LEN,
            **({} if asked.base_url is None else {"base_url": asked.base_url}),
        },
    }
    path = out or reports_dir / f"judged-{fingerprint(identity)[:8]}"
    target = JudgementFolder(path)
    target.check()
    with target:
        manifest = _manifest(target, identity, asked, rubric, criterion, (first, second))
        manifest = manifest.having(command=command.encode("utf-8", "replace").decode())
        pairs, manifest = _judge(target, paired, manifest, (first, second), rubric, criterion, asked, say=say)
        return _publish(target, pairs, manifest, (first, second), remarks)


def two_runs(folders: Sequence[Path]) -> tuple[RunOfReplies, RunOfReplies]:
    """Read two different complete runs of replies. The error says what the folders hold instead."""
    if len(folders) != 2:
        given = shlex.join(map(str, folders)) or "none"
        raise ConfigError(f"judge compares two run folders, got {given}; see python -m audit judge --help")
    manifests = [_of_replies(folder) for folder in folders]
    if len({identity_of(manifest) for manifest in manifests}) < 2:
        raise ConfigError(f"{folders[0]} and {folders[1]} hold the same run; give two that differ in model or strategy")
    runs = []
    for folder, manifest in zip(folders, manifests, strict=True):
        replies = RunFolder(folder).read("replies", n_prompts=manifest.n_prompts)
        replies = replies.loc[~replies["dimension"].isin(manifest.placebo)]
        narratives = narratives_of(folder, manifest)
        if not narratives:
            raise StoreError(
                f"{folder}: its narratives could not be read again, and a judge needs them; see its report"
            )
        runs.append(RunOfReplies(folder, manifest, replies, narratives))
    return runs[0], runs[1]


def _of_replies(folder: Path) -> Manifest:
    manifest = Manifest.read(folder)
    if "replies" not in task_of(manifest).forms:
        raise ConfigError(
            f"{folder} is a run of task={manifest.task.kind}, which has no replies to compare; task=reply makes one"
        )
    if manifest.status != "complete":
        n = plural(manifest.n_prompts, "prompt")
        raise StoreError(f"{folder} is not finished; give its command again until all {n} are answered and scored")
    return manifest


def paired_replies(
    first: RunOfReplies, second: RunOfReplies, asked: JudgeSettings
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Join the replies of two runs: columns of ``JUDGED_PAIRS`` up to the texts, ``text_1`` and ``text_2``.

    Narratives are in the first run's order, each with all its pairs.
    """
    dimensions = [list(map(str, run.replies["dimension"].unique())) for run in (first, second)]
    shared = [name for name in dimensions[0] if name in dimensions[1]]
    if not shared:
        one, other = (", ".join(names) for names in dimensions)
        raise ConfigError(
            f"{first.folder} and {second.folder} have no pair of replies in common: one is of {one}, the other of "
            f"{other}"
        )
    sides = []
    for run in (first, second):
        own = run.replies.loc[run.replies["dimension"].isin(shared) & (run.replies["wording"] == 0)]
        words = {name: own[name].astype(str) for name in (*_PAIR, "emotion", "perceiver_group", "experiencer_group")}
        sides.append(own.assign(**words, status=own["status"].astype(str), text=own["text"].fillna("").map(answer_of)))
    for dimension in shared:
        for name, what in (
            ("narrative_id", "narratives"),
            ("perceiver", "perceivers"),
            ("experiencer", "experiencers"),
        ):
            named = [set(side.loc[side["dimension"] == dimension, name]) for side in sides]
            if named[0] != named[1]:
                odd = min(named[0] ^ named[1])
                where = first.folder if odd in named[0] else second.folder
                raise ConfigError(
                    f"{first.folder} and {second.folder} are of different {what} in {dimension}: {odd!r} is in {where} "
                    "alone; compare runs of the same"
                )
    ids = list(dict.fromkeys(sides[0]["narrative_id"]))
    reworded = next((name for name in ids if first.narratives[name] != second.narratives[name]), None)
    if reworded is not None:
        raise ConfigError(
            f"{first.folder} and {second.folder} are of different narratives: {reworded!r} has two wordings; compare "
            "runs of the same"
        )
    joined = sides[0].merge(
        sides[1][[*_PAIR, "prompt_index", "status", "text"]], on=list(_PAIR), suffixes=("_1", "_2"), validate="1:1"
    )
    chosen = _drawn(ids, asked)
    place = {name: number for number, name in enumerate(chosen)}
    joined = joined.loc[joined["narrative_id"].isin(place)]
    joined = joined.iloc[np.argsort(joined["narrative_id"].map(place).to_numpy(), kind="stable")].reset_index(drop=True)
    for number in (1, 2):
        # Thoughts alone are no reply.
        blank = joined[f"status_{number}"].isin(SCORED) & (joined[f"text_{number}"].str.strip() == "")
        joined[f"status_{number}"] = joined[f"status_{number}"].mask(blank, "empty")
    paired = joined.assign(
        pair=np.arange(len(joined)),
        first_prompt_index=joined["prompt_index_1"],
        second_prompt_index=joined["prompt_index_2"],
        first_reply=joined["status_1"],
        second_reply=joined["status_2"],
        same_text=[
            split_words(one) == split_words(other)
            for one, other in zip(joined["text_1"], joined["text_2"], strict=True)
        ],
    )
    if not _comparable(paired).any():
        raise ConfigError(
            f"{first.folder} and {second.folder} have no pair of replies in common that can be compared: in each pair "
            "one was refused, empty, failed or in another script"
        )
    alone = sorted({*dimensions[0], *dimensions[1]} - set(shared))
    remarks = [f"Not compared, since only one run has them: {', '.join(alone)}."] if alone else []
    remarks += accepted_in({str(run.folder): run.manifest for run in (first, second)})
    if len(chosen) < len(ids):
        remarks.append(f"{len(chosen):,} of {plural(len(ids), 'narrative')} were drawn, by seed {asked.seed}.")
    return paired, tuple(remarks)


def _drawn(ids: Sequence[str], asked: JudgeSettings) -> list[str]:
    """Draw the narratives to judge; they keep their order."""
    if asked.n_narratives is None or asked.n_narratives >= len(ids):
        return list(ids)
    drawn = np.random.default_rng(asked.seed).permutation(len(ids))[: asked.n_narratives]
    return [ids[place] for place in sorted(drawn.tolist())]


def _comparable(paired: pd.DataFrame) -> pd.Series:
    return paired["first_reply"].isin(SCORED) & paired["second_reply"].isin(SCORED)


def _manifest(
    target: JudgementFolder,
    identity: Mapping[str, Any],
    asked: JudgeSettings,
    rubric: Rubric,
    criterion: str,
    runs: Iterable[RunOfReplies],
) -> JudgementManifest:
    """Return the manifest in the folder, or begin one. Raise StoreError if it is of another comparison."""
    there = JudgementManifest.read_if_there(target.path)
    if there is not None:
        if there.identity != identity:
            raise StoreError(
                f"run_dir={target.path} holds another comparison by a judge, of other replies or asked otherwise; name "
                "another folder, or none"
            )
        return there
    content = {
        "status": "unfinished",
        "identity": dict(identity),
        "asked": {
            "model": asked.model,
            "method": asked.method,
            "rubric": rubric.name,
            "rubric_file": rubric.file,
            "rubric_source": rubric.source,
            "criterion": criterion,
            "which": rubric.criteria[criterion].which,
        },
        "confidence": next(iter(runs)).manifest.statistics.confidence,
    }
    return JudgementManifest.of(content)


def _judge(
    target: JudgementFolder,
    paired: pd.DataFrame,
    manifest: JudgementManifest,
    runs: tuple[RunOfReplies, RunOfReplies],
    rubric: Rubric,
    criterion: str,
    asked: JudgeSettings,
    *,
    say: Callable[[str], None],
) -> tuple[pd.DataFrame, JudgementManifest]:
    """Judge the missing pairs, part by part. Return all pairs with answers and texts, and the manifest."""
    part_of = _parts(paired)
    missing = sorted(set(part_of) - target.parts(JUDGED_PAIRS).numbers())
    if missing:
        n_asked = int((_comparable(paired) & np.isin(part_of, missing)).sum())
        say(f"judging {plural(n_asked, 'pair')} of replies, each in both orders ...")
        opened = _open(asked, runs[0])
        facts = judge_facts(opened, model=str(asked.model))
        if manifest.judge is None:
            manifest = manifest.having(judge=facts)
        elif manifest.judge.content != facts:
            raise StoreError(
                f"run_dir={target.path} was begun by another judge of that name, with other files or engine; name "
                "another folder"
            )
        target.write_manifest(manifest)
        n_missing = int(np.isin(part_of, missing).sum())
        with Progress(len(paired), there=len(paired) - n_missing, unit="pairs", name="judge") as progress:
            for number in missing:
                own = paired.loc[part_of == number]
                answers = _answers(own, runs[0].narratives, opened, rubric, criterion, asked)
                target.parts(JUDGED_PAIRS).write(part_name(number), answers)
                progress.done(len(own))
    elif manifest.judge is not None:
        _check_same_judge(target, manifest.judge, asked, say)
    judged = target.parts(JUDGED_PAIRS).frame()
    if len(judged) != len(paired) or (judged["pair"].to_numpy() != paired["pair"].to_numpy()).any():
        raise StoreError(
            f"{target.path}/parts does not hold the pairs of these runs; name another folder with run_dir=PATH and "
            "judge again"
        )
    target.consolidate(say)
    return judged.assign(text_1=paired["text_1"], text_2=paired["text_2"]), manifest


def _check_same_judge(target: JudgementFolder, judge: Judge, asked: JudgeSettings, say: Callable[[str], None]) -> None:
    """Raise StoreError if the judge has changed since it answered all pairs. Report if that is unknown."""
    from audit.engines.unchanged import compare_model

    compared = compare_model(_card(asked), revision=judge.revision, files=judge.files)
    if compared.changed:
        raise StoreError(
            f"run_dir={target.path} holds what another judge answered: model={asked.model} has changed since "
            f"({compared.changed}); name another folder to ask this one"
        )
    told = f", not checked against the judge ({compared.unknown})" if compared.unknown else ""
    say(f"all pairs are judged already{told}; analysing")


def _parts(paired: pd.DataFrame) -> Any:
    """Return each pair's part number, shape (n_pairs,): whole narratives, of :data:`_PART` pairs or more."""
    narrative = pd.factorize(paired["narrative_id"])[0]
    together = max(1, -(-_PART * (int(narrative.max()) + 1) // len(paired)))
    return narrative // together


def _card(asked: JudgeSettings) -> ModelConfig:
    return ModelConfig(
        name=model_name("", str(asked.model)),
        path=str(asked.model),
        revision=None,
        tokenizer=None,
        dtype="auto",
        quantization=None,
        max_model_len=MAX_MODEL_LEN,
        trust_remote_code=False,
        elicitation=asked.method,
        base_url=asked.base_url,
        api_key_env=asked.api_key_env,
    )


def _open(asked: JudgeSettings, first: RunOfReplies) -> OpenModel:
    from audit.engines.open import judging_engine, open_model
    from audit.engines.server import Key

    Key.of(asked.api_key_env, "api_key_env")
    # The judge uses its own chat template, whatever the judged models used.
    own = EngineConfig(**first.manifest.config.engine)
    named = own if asked.engine == "own" else own.model_copy(update={"name": asked.engine})
    engine = judging_engine(named, served=asked.base_url is not None)
    return open_model(_card(asked), engine, seed=asked.seed, writes=asked.method == "generate")


def _answers(
    own: pd.DataFrame,
    narratives: Mapping[str, str],
    opened: OpenModel,
    rubric: Rubric,
    criterion: str,
    asked: JudgeSettings,
) -> pd.DataFrame:
    """Ask about the pairs of a part that have two replies; the others get no answer."""
    compared = own.loc[_comparable(own)]
    replies = [
        tuple(
            Reply(
                text=row[f"text_{number}"],
                narrative=narratives[row["narrative_id"]],
                **{name: row[name] for name in ("narrative_id", "emotion", "dimension", "perceiver", "experiencer")},
            )
            for number in (1, 2)
        )
        for row in compared.to_dict("records")
    ]
    pairs = [(first, second) for first, second in replies]
    judged = judge_pairs(pairs, opened=opened, rubric=rubric, criterion=criterion, method=asked.method)
    answered = [name for name in PAIRS if name not in ("pair", "narrative_id", "dimension", "emotion", "criterion")]
    judged = judged[answered].set_axis(compared.index).reindex(own.index)
    texts = {f"{order}_{name}": "" for order in ("given", "swapped") for name in ("status", "response")}
    joined = own.assign(criterion=criterion).join(judged.fillna(texts))
    return joined[list(JUDGED_PAIRS)]


def _publish(
    target: JudgementFolder,
    pairs: pd.DataFrame,
    manifest: JudgementManifest,
    runs: tuple[RunOfReplies, RunOfReplies],
    noted: Sequence[str],
) -> Judgement:
    """Estimate the preference, render the page and write both."""
    from audit.comparing.preference.page import render_judgement
    from audit.comparing.preference.statistics import preference_table, remarks_on_preference

    preference = preference_table(pairs, confidence=manifest.confidence)
    labels = run_labels(runs)
    remarks = (*noted, *_own_judge(manifest, runs, labels))
    named = [
        {"run": label, "folder": str(run.folder).encode("utf-8", "replace").decode(), "model": model_of(run)}
        for label, run in zip(labels, runs, strict=True)
    ]
    manifest = manifest.having(
        runs=named, status="complete", n_pairs=len(pairs), remarks=list(remarks), versions=versions()
    )
    about = list(remarks_on_preference(preference))
    page = render_judgement(
        preference,
        pairs,
        labels=labels,
        narratives=runs[0].narratives,
        manifest=manifest,
        remarks=remarks,
        limits=about,
    )
    tables = {"pairs": pairs[list(JUDGED_PAIRS)], "preference": preference}
    target.clear("tables")
    for name, table in tables.items():
        target.write_file(f"tables/{name}.csv", PREFERENCE_TABLES[name].csv(table))
    target.write_file("dictionary.csv", dictionary(PREFERENCE_TABLES.values()))
    written = target.write_file("judgement.html", page.encode())
    target.write_manifest(manifest)
    told = (*remarks, *(f"{each.dimension}: {each.text}" for each in about))
    return Judgement(target.path, written, labels, preference, manifest.confidence, told)


def run_labels(runs: tuple[RunOfReplies, RunOfReplies]) -> tuple[str, str]:
    """Label two runs by what sets them apart."""
    choices = [choices_of(run.manifest, variant=run.manifest.prompt.variant) for run in runs]
    one, other = label_runs(choices, [run.folder.name for run in runs])
    return one, other


def model_of(run: RunOfReplies) -> dict[str, str]:
    """Return the known ones of name, path and revision of the model that wrote a run's replies."""
    model = run.manifest.model
    known = {"name": model.name, "path": model.path, "revision": model.revision}
    return {name: value for name, value in known.items() if value}


def _own_judge(manifest: JudgementManifest, runs: Sequence[RunOfReplies], labels: Sequence[str]) -> Iterable[str]:
    """Warn if the judge is the model that wrote the replies."""
    from audit.tasks.reply.gaps import weights_of

    judge = weights_of({} if manifest.judge is None else manifest.judge.files)
    for run, label in zip(runs, labels, strict=True):
        if judge & weights_of(run.manifest.model.files):
            yield f"The judge is the model that wrote the replies of {label}: a model can prefer its own words."
