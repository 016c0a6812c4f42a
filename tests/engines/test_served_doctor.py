"""What doctor says of a model that a server runs: whether it answers, for the price of one question."""

import pytest
from hostile import KEY, Hostile

pytestmark = pytest.mark.server


@pytest.fixture
def served(audit, capsys, monkeypatch):
    monkeypatch.setattr("audit.extras.doctor.examination._import_fault", lambda *_: "left out by a test")

    def run(url, *words, code=0):
        of = ("model=openai", "model.path=tiny", f"model.base_url={url}", "model.api_key_env=TESTS_KEY")
        assert audit("doctor", *of, "stimuli.emotions=[sad]", *words) == code
        return capsys.readouterr().out

    return run


def test_a_server_is_asked_one_question_and_its_key_is_not_on_the_page(served, monkeypatch):
    server = Hostile()
    with server.serving() as url:
        assert "this environment variable is not set or" in served(url, code=1)
        monkeypatch.setenv("TESTS_KEY", KEY)
        assert "No problem was found, but no question was asked: whether the model answers is not known" in served(
            url, "probe=0"
        )
        assert not server.asked
        page = served(url)
    assert len(server.asked) == 1
    assert "A run would work: the model answered." in page
    assert KEY not in page
    page = served(url, code=1)  # which serves no more
    assert "**Mend:** engine=openai: no answer" in page
    assert "A run would not work." in page
