"""The options ``stimuli.NAME``: which narratives and identities a run asks about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from audit.configuration.groups import GroupWithNewOptions, OptionGroup, Words
from stimuli.conversations import Shown
from stimuli.pairs import PairsAsked


class ColumnsConfig(GroupWithNewOptions):
    """Column names in a user's file of narratives; None if the file lacks the column."""

    _of_servers = ("turns", "identity", "valence")

    narrative_id: str | tuple[str, ...] | None = Field(
        description="stimuli=csv: the column with the narrative's identifier; [a,b] if several columns identify it "
        "together"
    )
    emotion: str | None = Field(description="stimuli=csv: the column with the emotion that each narrative is about")
    neutral: str | None = Field(
        description="stimuli=csv: the column with the text as its writer tells it, for prompts with the neutral wording"
    )
    first_person: str | None = Field(
        description="stimuli=csv: the column with the text in the first person (I ...); null = the file has none"
    )
    third_person: str | None = Field(
        description="stimuli=csv: the column with the text in the third person; null = the file has none"
    )
    emotion_noun: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s noun, as in "how much anger"; null = emotion_noun, '
        "if the file has it, else a packaged word"
    )
    emotion_adjective: str | None = Field(
        description='stimuli=csv: the column with the emotion\'s adjective, as in "how angry"; null = '
        "emotion_adjective, if the file has it, else a packaged word"
    )
    valence: str | None = Field(
        default=None,
        description="stimuli=csv: the column that says of emotions whether they are positive, negative or neutral, so "
        "that a wrong emotion is of the opposite kind; null = valence, if the file has it, else of packaged emotions",
    )
    turns: Words | None = Field(
        default=None,
        description="stimuli=csv: the columns with what the person writes after the narrative, message by message, for "
        "strategy=talk-file; null = none",
    )
    identity: str | None = Field(
        default=None,
        description="stimuli=csv: the column with the group, or the term, whose story it is: it is asked about with "
        "this experiencer only, situations_per_emotion is of each, and D has no verdict; null = all experiencers",
    )


class ConversationsConfig(GroupWithNewOptions):
    """Column names in a user's corpus (None if absent), how much history is shown, and synonyms of its labels."""

    _of_servers = ("shown", "first_speaker", "evidence")

    conversation_id: str | tuple[str, ...] = Field(
        description="the column with the conversation's identifier; [a,b] if several columns identify it together"
    )
    turn: str = Field(
        description="the column with the utterance's position in its conversation: whole numbers, in order"
    )
    speaker: str = Field(description="the column with the speaker's name")
    text: str = Field(description="the column with the utterance")
    emotion: str = Field(
        description="the column with the emotion label; utterances without a label are shown but not asked about"
    )
    identity: str | None = Field(
        description="the column with the speaker's identity, in the corpus' own words, so that answers are also "
        "scored by identity; null = none"
    )
    cause: str | None = Field(
        description="the column with the words that caused the emotion; separate several with ||, leave the cell "
        "empty for none; null = no column"
    )
    evidence: str | None = Field(
        default=None,
        description="the column with the turns of the utterances that caused the emotion; || between several, none "
        "if no utterance did, empty if nobody marked any; null = no column",
    )
    history: int | None = Field(ge=0, description="maximum number of earlier utterances to show; null = all")
    keep_names: bool = Field(description="true = speakers keep their names; false = Person A, Person B")
    shown: Shown = Field(
        default="lines",
        description="lines = earlier utterances and the one asked about as quoted lines; turns = as chat messages, the "
        "speaker's the user's and others' the model's (task=reply); speaker = the first utterance of each "
        "conversation, and the same speaker's next ones for strategy=talk-file",
    )
    first_speaker: bool = Field(
        default=False,
        description="true = the emotion is that of the conversation's first speaker, and only their utterances are "
        "asked about",
    )
    synonyms: dict[str, Words] | None = Field(
        default=None,
        description="words in answers that count as a label, e.g. {joy: [happiness, happy]}; forms of the label "
        "itself count anyway",
    )


class StimuliConfig(OptionGroup):
    """Which identities and narratives are crossed."""

    source: Literal["geneva", "geneva20", "hou2025", "csv", "conversations"] = Field(
        description="where the narratives come from; set by stimuli="
    )
    identities: str = Field(
        description="the packaged identities: six-groups, geneva (four groups), wide or hou2025; personas and us-them "
        "belong to experiment="
    )
    own_identities: Path | None = Field(
        description="your own YAML file with more dimensions (docs/stimuli.md); null = none"
    )
    unspecified: bool = Field(description='true = also ask about "a person", as a baseline on both sides')
    no_persona: bool = Field(description="true = also ask each question without a persona")
    perceiver: Literal["identities", "none"] = Field(
        default="identities",
        description="identities = the model is given each identity in turn; none = no perceiver: the model answers as "
        "itself (docs/deployed.md)",
    )
    path: Path | None = Field(
        description="the file or folder with the narratives, for stimuli=hou2025, csv and conversations"
    )
    emotions: Words | None = Field(description="only narratives of these emotions, e.g. [sad,happy]; null = all")
    situations_per_emotion: int | Literal["all", "enough"] = Field(
        description="number of narratives per emotion, sampled with the seed; all = no sample; enough = as many as "
        "decide statistics.margin, or 2% of the scale, for a model without a gap"
    )
    card_sample: int | Literal["all"] = Field(
        default="all",
        exclude=True,
        description="situations_per_emotion for model cards that ask for a sample (smollm2); all = no sample",
    )
    columns: ColumnsConfig
    conversations: ConversationsConfig | None = Field(
        default=None,
        description="the columns of your corpus, and what to show of it; null unless stimuli=conversations",
    )
    placebo: Annotated[int, Field(ge=0)] | Words = Field(
        default=0,
        description="number of sets of invented groups to compare δ with, sampled with the seed; or their names, e.g. "
        "[trivial]; 0 = none",
    )
    placebo_terms: int = Field(default=1, ge=1, description="number of terms per invented group")
    intensity: str = Field(
        default="rotate",
        description="stimuli=geneva20: mild, middle or strong; rotate = each situation in one of them, in turn",
    )
    cues: Words | None = Field(
        default=None,
        description="use only terms that show their group in these ways: label, name (typical first names), context; "
        "prompt=deployed also has earlier_turn (the label, said in an earlier turn); null = all terms",
    )
    perceiver_terms: int | None = Field(
        default=None, description="number of terms per group for perceivers (the first ones); null = all"
    )
    experiencer_terms: int | None = Field(
        default=None,
        description="number of terms per group for experiencers (the first ones); null = all; with 1 on both sides, "
        "every in-group pair repeats its words",
    )
    check_person: bool = Field(  # False is what runs did before the check existed
        default=False,
        description='of stimuli=csv: true = texts are checked: told by the person ("I ..."), or in the third person '
        "with {experiencer}; false = do not check",
    )
    missing: Words | None = Field(
        default=None,
        description='text that means an empty cell in your file, e.g. [NA, "-"]; null = none, because a '
        "group may be called so",
    )
    pairs: PairsAsked = Field(
        default="all",
        description="the pairs asked about each narrative: balanced = every in-group pair, and half or 3 of the other "
        "groups, in turn; all = every pair",
    )
