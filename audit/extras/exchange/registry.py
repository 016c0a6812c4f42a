"""All forms of export. To add one, write a module beside these and list it here."""

from __future__ import annotations

from typing import Final

from audit.extras.exchange import auditors_card, every_eval_ever, huggingface, spreadsheet, spss
from audit.extras.exchange.base import Form
from audit.extras.exchange.paper import export

FORMS: Final[dict[str, Form]] = {
    form.name: form
    for form in (spreadsheet.FORM, spss.FORM, huggingface.FORM, every_eval_ever.FORM, auditors_card.FORM, export.FORM)
}
