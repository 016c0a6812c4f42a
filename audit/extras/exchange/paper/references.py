"""Works cited by the section on methods: in the text, as a list, and as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_MOST_NAMED: Final = 20
_FIRST_NAMED: Final = 19  # APA style: of more than 20 authors, a list of references names the first 19 and the last
_ARXIV: Final = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


@dataclass(frozen=True, slots=True)
class Reference:
    """A cited work."""

    key: str  # BibTeX key
    authors: tuple[tuple[str, str], ...]  # family name and initials of each; an organisation has no initials
    year: str  # empty if unknown
    title: str  # in sentence case; braces keep capitals
    kind: str = "article"  # BibTeX entry type
    where: str = ""  # journal, proceedings or other container
    volume: str = ""
    issue: str = ""
    pages: str = ""
    doi: str = ""  # at most one of doi and arxiv is set
    arxiv: str = ""
    more: tuple[tuple[str, str], ...] = field(default=())  # other BibTeX fields

    @property
    def short(self) -> str:
        """Authors as the text cites them, such as "Hou et al."."""
        families = [family for family, _ in self.authors]
        if len(families) > 2:
            return f"{families[0]} et al."
        return " & ".join(families) or f"arXiv:{self.arxiv}"

    def parts(self) -> tuple[tuple[str, bool], ...]:
        """Return the APA entry for the list of references, in parts with whether each is italic."""
        more = dict(self.more)
        title = self.title.replace("{", "").replace("}", "")
        version = f" (Version {more['version']})" if "version" in more else ""
        what = " [Computer software]" if self.kind == "misc" and not self.arxiv else ""
        alone = not self.where
        inside = "In " if self.kind == "inproceedings" else ""
        pages = self.pages.replace("--", "\N{EN DASH}")
        pages = f" (pp. {pages})" if self.kind == "inproceedings" else f", {pages}" if pages else ""
        link = f" https://doi.org/{self.doi}" if self.doi else f" arXiv. https://arxiv.org/abs/{self.arxiv}" if (
            self.arxiv) else ""  # fmt: skip
        who = _names(self.authors)
        found = (
            (f"{who}{'' if who.endswith('.') else '.'} ({self.year or 'n.d.'}). ", False),
            (title, alone),
            (f"{version}{what}.", False),
            *(((f" {inside}", False), (f"{self.where}{f', {self.volume}' if self.volume else ''}", True),
               (f"{f'({self.issue})' if self.issue else ''}{pages}.", False)) if self.where else ()),
            (f"{link}{f' [{more_note}]' if (more_note := more.get('note', '')) else ''}", False),
        )  # fmt: skip
        return tuple((text, italic) for text, italic in found if text)

    def bibtex(self) -> str:
        """Return the BibTeX entry."""
        people = " and ".join(f"{family}, {given}" if given else f"{{{family}}}" for family, given in self.authors)
        container = {"article": "journal", "inproceedings": "booktitle"}.get(self.kind, "howpublished")
        more = dict(self.more)
        where = self.where or (f"arXiv:{self.arxiv}" if self.arxiv else "")
        if "version" in more:
            where = f"Computer software, version {more['version']}"
        fields = {
            "author": people,
            "title": self.title,
            "year": self.year or "n.d.",
            container: where,
            "volume": self.volume,
            "number": self.issue,
            "pages": self.pages,
            "doi": self.doi,
            **({"eprint": self.arxiv, "archiveprefix": "arXiv"} if self.arxiv else {}),
            **more,
        }
        lines = [f"  {name} = {{{_in_braces(value)}}}," for name, value in fields.items() if value]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


def cited(works: Sequence[Reference]) -> str:
    """Return the text of a citation: "Hartung & Knapp, 2001; Sidik & Jonkman, 2002"."""
    return "; ".join(f"{work.short}, {work.year or 'n.d.'}" for work in works)


def bibliography(works: Sequence[Reference]) -> str:
    """Return a BibTeX file."""
    return "\n\n".join(work.bibtex() for work in works) + "\n"


def software(version: str) -> Reference:
    """Return this package as a work; an empty version is left out."""
    # without what BibTeX or LaTeX would interpret
    more = (("version", re.sub(r"[^A-Za-z0-9.+-]+", "", version)),) if version else ()
    return Reference("empathyaudit", (("The empathy-audit developers", ""),), "", "empathy-audit", "misc", more=more)


def arxiv_works(source: str) -> tuple[Reference, ...]:
    """Return the works whose arXiv numbers a text names. An unknown work has only its number."""
    numbers = dict.fromkeys(_ARXIV.findall(source))
    return tuple(_BY_ARXIV.get(number) or _unknown(number) for number in numbers)


def _unknown(number: str) -> Reference:
    asked = "authors, year and title to be filled in"
    return Reference(f"arxiv{number}", (), "", f"arXiv preprint {number}", kind="misc", arxiv=number,
                     more=(("note", asked),))  # fmt: skip


def _names(authors: Sequence[tuple[str, str]]) -> str:
    named = [f"{family}, {given}" if given else family for family, given in authors]
    if len(named) > _MOST_NAMED:
        return f"{', '.join(named[:_FIRST_NAMED])}, … {named[-1]}"
    return ", & ".join(filter(None, (", ".join(named[:-1]), *named[-1:]))) or "[Authors to be filled in]"


def _in_braces(value: str) -> str:
    return value.replace("&", r"\&").replace("%", r"\%").replace("_", r"\_")


def _people(names: str) -> tuple[tuple[str, str], ...]:
    """Parse "Family, G. H.; Family, G."."""
    return tuple((family, given) for family, _, given in (name.partition(", ") for name in names.split("; ")))


HOU: Final = Reference(
    "hou2025", _people("Hou, Y.; Daumé III, H.; Rudinger, R."), "2025",
    "Language models predict empathy gaps between social in-groups and out-groups", kind="misc", arxiv="2503.01030",
)  # fmt: skip
TROIANO: Final = Reference(
    "troiano2023", _people("Troiano, E.; Oberländer, L.; Klinger, R."), "2023",
    "Dimensional modeling of emotions in text with appraisal theories: Corpus creation, annotation reliability, and "
    "prediction", where="Computational Linguistics", volume="49", issue="1", pages="1--72", doi="10.1162/coli_a_00461",
)  # fmt: skip
HOLM: Final = Reference(
    "holm1979", _people("Holm, S."), "1979", "A simple sequentially rejective multiple test procedure",
    where="Scandinavian Journal of Statistics", volume="6", issue="2", pages="65--70",
)  # fmt: skip
HOTELLING: Final = Reference(
    "hotelling1931", _people("Hotelling, H."), "1931", "The generalization of {Student's} ratio",
    where="The Annals of Mathematical Statistics", volume="2", issue="3", pages="360--378",
    doi="10.1214/aoms/1177732979",
)  # fmt: skip
HARTUNG: Final = Reference(
    "hartung2001", _people("Hartung, J.; Knapp, G."), "2001",
    "A refined method for the meta-analysis of controlled clinical trials with binary outcome",
    where="Statistics in Medicine", volume="20", issue="24", pages="3875--3889", doi="10.1002/sim.1009",
)  # fmt: skip
SIDIK: Final = Reference(
    "sidik2002", _people("Sidik, K.; Jonkman, J. N."), "2002", "A simple confidence interval for meta-analysis",
    where="Statistics in Medicine", volume="21", issue="21", pages="3153--3159", doi="10.1002/sim.1262",
)  # fmt: skip
SCHUIRMANN: Final = Reference(
    "schuirmann1987", _people("Schuirmann, D. J."), "1987",
    "A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average "
    "bioavailability", where="Journal of Pharmacokinetics and Biopharmaceutics", volume="15", issue="6",
    pages="657--680", doi="10.1007/BF01068419",
)  # fmt: skip
JUDD: Final = Reference(
    "judd2012", _people("Judd, C. M.; Westfall, J.; Kenny, D. A."), "2012",
    "Treating stimuli as a random factor in social psychology: A new and comprehensive solution to a pervasive but "
    "largely ignored problem", where="Journal of Personality and Social Psychology", volume="103", issue="1",
    pages="54--69", doi="10.1037/a0028347",
)  # fmt: skip
MACKINNON: Final = Reference(
    "mackinnon2023", _people("MacKinnon, J. G.; Nielsen, M. Ø.; Webb, M. D."), "2023",
    "Cluster-robust inference: A guide to empirical practice", where="Journal of Econometrics", volume="232",
    issue="2", pages="272--299", doi="10.1016/j.jeconom.2022.04.001",
)  # fmt: skip
NUMPY: Final = Reference(
    "harris2020",
    _people(
        "Harris, C. R.; Millman, K. J.; van der Walt, S. J.; Gommers, R.; Virtanen, P.; Cournapeau, D.; Wieser, E.; "
        "Taylor, J.; Berg, S.; Smith, N. J.; Kern, R.; Picus, M.; Hoyer, S.; van Kerkwijk, M. H.; Brett, M.; "
        "Haldane, A.; del Río, J. F.; Wiebe, M.; Peterson, P.; Gérard-Marchant, P.; Sheppard, K.; Reddy, T.; "
        "Weckesser, W.; Abbasi, H.; Gohlke, C.; Oliphant, T. E."
    ),
    "2020", "Array programming with {NumPy}", where="Nature", volume="585", pages="357--362",
    doi="10.1038/s41586-020-2649-2",
)  # fmt: skip
SCIPY: Final = Reference(
    "virtanen2020",
    _people(
        "Virtanen, P.; Gommers, R.; Oliphant, T. E.; Haberland, M.; Reddy, T.; Cournapeau, D.; Burovski, E.; "
        "Peterson, P.; Weckesser, W.; Bright, J.; van der Walt, S. J.; Brett, M.; Wilson, J.; Millman, K. J.; "
        "Mayorov, N.; Nelson, A. R. J.; Jones, E.; Kern, R.; Larson, E.; Carey, C. J.; Polat, İ.; Feng, Y.; "
        "Moore, E. W.; VanderPlas, J.; Laxalde, D.; Perktold, J.; Cimrman, R.; Henriksen, I.; Quintero, E. A.; "
        "Harris, C. R.; Archibald, A. M.; Ribeiro, A. H.; Pedregosa, F.; van Mulbregt, P.; SciPy 1.0 Contributors"
    ),
    "2020", "{SciPy} 1.0: Fundamental algorithms for scientific computing in {Python}", where="Nature Methods",
    volume="17", pages="261--272", doi="10.1038/s41592-019-0686-2",
)  # fmt: skip
TRANSFORMERS: Final = Reference(
    "wolf2020",
    _people(
        "Wolf, T.; Debut, L.; Sanh, V.; Chaumond, J.; Delangue, C.; Moi, A.; Cistac, P.; Rault, T.; Louf, R.; "
        "Funtowicz, M.; Davison, J.; Shleifer, S.; von Platen, P.; Ma, C.; Jernite, Y.; Plu, J.; Xu, C.; Le Scao, T.; "
        "Gugger, S.; Drame, M.; Lhoest, Q.; Rush, A."
    ),
    "2020", "Transformers: State-of-the-art natural language processing", kind="inproceedings",
    where="Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing: System "
    "Demonstrations", pages="38--45", doi="10.18653/v1/2020.emnlp-demos.6",
)  # fmt: skip
VLLM: Final = Reference(
    "kwon2023",
    _people(
        "Kwon, W.; Li, Z.; Zhuang, S.; Sheng, Y.; Zheng, L.; Yu, C. H.; Gonzalez, J. E.; Zhang, H.; Stoica, I."
    ),
    "2023", "Efficient memory management for large language model serving with {PagedAttention}", kind="inproceedings",
    where="Proceedings of the 29th Symposium on Operating Systems Principles", pages="611--626",
    doi="10.1145/3600006.3613165",
)  # fmt: skip
_BY_ARXIV: Final = {
    work.arxiv: work
    for work in (
        HOU,
        Reference(
            "xin2025", _people("Xin, W."), "2025",
            "Empathetic cascading networks: A multi-stage prompting technique for reducing social biases in large "
            "language models", kind="misc", arxiv="2511.18696",
        ),
        Reference(
            "lee2023", _people("Lee, Y. K.; Lee, I.; Shin, M.; Bae, S.; Hahn, S."), "2023",
            "Chain of empathy: Enhancing empathetic response of large language models based on psychotherapy models",
            kind="misc", arxiv="2311.04915",
        ),
        Reference(
            "qian2023", _people("Qian, Y.; Zhang, W.-N.; Liu, T."), "2023",
            "Harnessing the power of large language models for empathetic response generation: Empirical "
            "investigations and improvements", kind="misc", arxiv="2310.05140",
        ),
        Reference(
            "rashkin2018", _people("Rashkin, H.; Smith, E. M.; Li, M.; Boureau, Y.-L."), "2018",
            "Towards empathetic open-domain conversation models: A new benchmark and dataset", kind="misc",
            arxiv="1811.00207",
        ),
    )
}  # fmt: skip
LIBRARIES: Final[dict[str, Reference]] = {"transformers": TRANSFORMERS, "vllm": VLLM, "numpy": NUMPY, "scipy": SCIPY}
"""Library → the work to cite for it."""
TITLES: Final = {
    "transformers": "Transformers",
    "vllm": "vLLM",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "pandas": "pandas",
    "statsmodels": "statsmodels",
}
"""Library → its own spelling."""
