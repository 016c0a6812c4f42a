"""The options ``stimuli.NAME``: which narratives and identities a run asks about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from audit.configuration.groups import OptionGroup, Words
from stimuli.pairs import PairsAsked


class ColumnsConfig(OptionGroup):
    """Column names in a user's file of narratives; None if the file lacks the column."""

    narrative_id: str | tuple[str, ...] | None = Field(
        description="stimuli=csv: the column with an identifier of each narrative; [a,b] where several make one "
        "together"
    )
    emotion: str | None = Field(description="stimuli=csv: the column with the emotion that each narrative is about")
    neutral: str | None = Field(
        description="stimuli=csv: the column with the text as its writer tells it, for prompts that show it in a "
        "neutral way"
    )
    first_person: str | None = Field(
        description="stimuli=csv: the column with the text in the first person (I ...); null = the file has none"
    )
    third_person: str | None = Field(
        description="stimuli=csv: the column with the text in the third person; null = the file has none"
    )
    emotion_noun: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s noun, as in "how much anger"; null = emotion_noun, '
        "if the file has it, or else a word of ours"
    )
    emotion_adjective: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s adjective, as in "how angry"; null = '
        "emotion_adjective, if the file has it, or else a word of ours"
    )


class ConversationsConfig(OptionGroup):
    """Column names in a user's corpus (None if absent), how much history is shown, and synonyms of its labels."""

    conversation_id: str | tuple[str, ...] = Field(
        description="the column that says which conversation an utterance belongs to; [a,b] where several tell it "
        "together"
    )
    turn: str = Field(description="the column with an utterance's place in its conversation: whole numbers, in order")
    speaker: str = Field(description="the column with the name of who speaks")
    text: str = Field(description="the column with what is said")
    emotion: str = Field(
        description="the column with the label of the emotion; an utterance whose cell is empty is shown and not "
        "asked about"
    )
    identity: str | None = Field(
        description="the column that says who the speaker is, in the corpus' own words: answers are then scored by "
        "it, too; null = none"
    )
    cause: str | None = Field(
        description="the column with the words that brought the emotion on; || between several, an empty cell for "
        "none; null = none"
    )
    history: int | None = Field(ge=0, description="how many earlier utterances are shown, at most; null = all")
    keep_names: bool = Field(description="true = speakers keep their names; false = they are Person A, Person B")
    synonyms: dict[str, Words] | None = Field(
        default=None,
        description="words that are read as a label in answers, e.g. {joy: [happiness, happy]}; a label's own forms "
        "are read anyway",
    )


class StimuliConfig(OptionGroup):
    """Which identities and narratives are crossed."""

    source: Literal["geneva", "geneva20", "hou2025", "csv", "conversations"] = Field(
        description="where the narratives come from; set by stimuli="
    )
    identities: str = Field(
        description="which packaged identities: six-groups, geneva (four groups), wide or hou2025; personas and "
        "us-them belong to experiment="
    )
    own_identities: Path | None = Field(
        description="a YAML file of yours that adds dimensions; null = none: docs/use.md"
    )
    unspecified: bool = Field(description='true = "a person" is asked about too, as a baseline on both sides')
    no_persona: bool = Field(description="true = each question is also asked without any persona")
    path: Path | None = Field(
        description="the file or folder with the narratives, for stimuli=hou2025, csv and conversations"
    )
    emotions: Words | None = Field(description="only narratives of these emotions, e.g. [sad,happy]; null = all")
    situations_per_emotion: int | Literal["all"] = Field(
        description="a sample of so many narratives of each emotion, drawn by the seed; all = no sample"
    )
    card_sample: int | Literal["all"] = Field(
        default="all",
        exclude=True,
        description="situations_per_emotion with a model's card that asks for a sample (smollm2); all = none, as of "
        "a file of yours",
    )
    columns: ColumnsConfig
    conversations: ConversationsConfig | None = Field(
        default=None,
        description="the columns of your corpus, and what of it is shown; null unless stimuli=conversations",
    )
    placebo: Annotated[int, Field(ge=0)] | Words = Field(
        default=0,
        description="how many sets of invented groups δ is held against, drawn by the seed; or their names, e.g. "
        "[trivial]; 0 = none",
    )
    placebo_terms: int = Field(default=1, ge=1, description="how many terms of each invented group are asked about")
    intensity: str = Field(
        default="rotate",
        description="of stimuli=geneva20: mild, middle or strong; rotate = each situation in one of them, by turns",
    )
    cues: Words | None = Field(
        default=None,
        description="only terms that tell their group in these ways: label, name (typical first names), context; "
        "null = all terms",
    )
    perceiver_terms: int | None = Field(
        default=None, description="perceivers have the first so many terms of each group; null = all"
    )
    experiencer_terms: int | None = Field(
        default=None,
        description="experiencers have the first so many terms of each group; null = all; with 1 on both sides every"
        " in-group pair repeats its words",
    )
    check_person: bool = Field(  # False is what runs did before the check existed
        default=False,
        description='of stimuli=csv: true = texts are checked: told by the person ("I ..."), or in the third person '
        "with {experiencer}; false = they are as the prompt says",
    )
    missing: Words | None = Field(
        default=None,
        description='what stands for an empty cell in a file of yours, e.g. [NA, "-"]; null = nothing does, for a '
        "group may be called so",
    )
    pairs: PairsAsked = Field(
        default="all",
        description="which pairs each narrative is asked about: balanced = every in-group pair, and of the other "
        "groups half or 3, by turns; all = every pair",
    )
