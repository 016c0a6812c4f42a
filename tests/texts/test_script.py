import pytest

from audit.tasks.measures.script import in_other_script, script_of


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("I'm so sorry.", "Latin"),
        ("Đặng, naïve, straße", "Latin"),
        ("Мне очень жаль.", "Cyrillic"),
        ("أنا آسف جدا", "Arabic"),
        ("אני מצטער", "Hebrew"),
        ("λυπάμαι", "Greek"),
        ("मुझे खेद है", "Devanagari"),
        ("ฉันเสียใจ", "Thai"),
        ("정말 유감이에요", "Hangul"),
        ("真遗憾。", "Han"),
        ("それはつらいですね", "Han"),
        ("コーヒー", "Han"),  # Katakana, with the sign that both Japanese scripts share
        ("Ｓｏｒｒｙ", "Latin"),  # full width
        ("𝐒𝐨𝐫𝐫𝐲", "Latin"),  # mathematics
        ("so 悲しい", "Han"),  # 2 letters against 3
        ("abc где", "Latin"),  # 3 of each: the first
        ("911! 😢 №", "Latin"),  # "№" stands for "No"
        ("911! 😢", None),
        ("ˈʼ", None),  # marks of pronunciation are of no script
        ("", None),
    ],
)
def test_a_text_s_script_is_that_of_most_of_its_letters(text, script):
    assert script_of(text) == script


@pytest.mark.parametrize(
    ("reply", "narrative", "other"),
    [
        ("Мне жаль.", "I lost my keys.", True),
        ("I am sorry.", "Я потерял ключи.", True),
        ("I am sorry.", "I lost my keys.", False),
        ("Je suis désolé.", "I lost my keys.", False),  # another language, the same script
        ("真遗憾", "鍵をなくしました", False),
        ("ab где", "I lost my keys.", True),  # 3 of 5
        ("abc где", "I lost my keys.", False),  # half is not most
        ("abc де שלום", "I lost my keys.", True),  # Latin has as many as any, and 6 of 9 are not Latin
        ("…!", "I lost my keys.", False),  # no letter: empty, not in another script
        ("Мне жаль.", "", False),
    ],
)
def test_a_reply_is_in_another_script_where_most_of_its_letters_are_not_of_the_narrative_s(reply, narrative, other):
    assert in_other_script(reply, narrative) is other
