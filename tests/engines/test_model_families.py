# ruff: noqa: E501 (a template is read as a whole)
"""How the chat templates of real families go about it, in small templates of our own: what the model is shown."""

from typing import NamedTuple

import pytest

from audit.engines.chat import ChatTokenizer
from audit.engines.rendering import rendered
from audit.engines.templates import read_template
from audit.errors import ModelError
from stimuli.prompts import Prompt

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
BEGIN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
# Content as a text, or as a list of parts.
TEXT = (
    "{% macro text(c) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{% if p.type == 'text' %}{{ p.text }}"
    "{% endif %}{% endfor %}{% endif %}{% endmacro %}"
)
PARTS = "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}"
ALTERNATES = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] or (m.role == 'user') != (loop.index0 % 2 == 0)"
    " %}{{ raise_exception('Roles must alternate, and system is none of them') }}{% endif %}{% endfor %}"
)


class Family(NamedTuple):
    """A template; what prompts end with where no thought is asked for, and with one; what is told of the system."""

    template: str
    off: str
    on: str | None = None
    system: str = "own"
    turns: bool = True
    date: str = ""


FAMILIES = {
    "Qwen2.5": Family(
        "{% if tools %}{{ raise_exception('no tools were given') }}{% endif %}"
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
        + CHATML + BEGIN, "<|im_start|>assistant\n",
    ),
    "Qwen3": Family(
        CHATML + BEGIN + "{% if add_generation_prompt and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}",
        "assistant\n<think>\n\n</think>\n\n", "assistant\n<think>\n",
    ),
    "Qwen3.5": Family(
        TEXT + "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ text(m.content) | trim }}<|im_end|>\n{% endfor %}"
        + BEGIN + "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}"
        "{% else %}{{ '<think>\n' }}{% endif %}",
        "assistant\n<think>\n\n</think>\n\n", "assistant\n<think>\n",
    ),
    "Llama 2": Family(
        "{% if messages[0].role == 'system' %}{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
        "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ (system if loop.first else '') + "
        "m.content.strip() }} [/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}", "[/INST]",
    ),
    "Llama 3": Family(
        "{% set loop_messages = messages %}{% for m in loop_messages %}{% set c = '<|h|>' + m.role + '<|/h|>\n\n' + "
        "m.content | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set c = bos_token + c %}{% endif %}{{ c }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|h|>assistant<|/h|>\n\n' }}{% endif %}",
        "<|h|>assistant<|/h|>\n\n",
    ),
    "Llama 3.1": Family(
        "{{- bos_token }}{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}"
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content | trim %}{% set messages = messages[1:] %}"
        "{% else %}{% set s = '' %}{% endif %}<|h|>system<|/h|>\n\nToday Date: {{ date_string }}\n\n{{ s }}<|eot|>"
        "{% for m in messages %}<|h|>{{ m.role }}<|/h|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}"
        "{{ '<|h|>assistant<|/h|>\n\n' }}", "<|h|>assistant<|/h|>\n\n", date="26 Jul 2024",
    ),
    "Llama 3.2": Family(
        "{% if not date_string is defined %}{% if strftime_now is defined %}{% set date_string = "
        "strftime_now('%d %b %Y') %}{% else %}{% set date_string = '26 Jul 2024' %}{% endif %}{% endif %}"
        "<|h|>system<|/h|>\n\nToday Date: {{ date_string }}<|eot|>"
        "{% for m in messages %}<|h|>{{ m.role }}<|/h|>{{ m.content }}<|eot|>{% endfor %}<|h|>assistant<|/h|>",
        "<|h|>assistant<|/h|>", date="26 Jul 2024",
    ),
    "Llama 4": Family(
        TEXT + "{{ bos_token }}{% for m in messages %}<|h|>{{ m.role }}<|/h|>\n\n{{ text(m.content) }}<|eot|>{% endfor %}"
        "{{ '<|h|>assistant<|/h|>\n\n' }}", "<|h|>assistant<|/h|>\n\n",
    ),
    "Gemma 2": Family(
        "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}"
        "<turn>{{ role }}\n{{ m.content | trim }}</turn>\n{% endfor %}{{ '<turn>model\n' }}", "<turn>model\n", system="merged",
    ),
    "Gemma 3": Family(
        TEXT + "{{ bos_token }}{% if messages[0].role == 'system' %}{% set first = text(messages[0].content) + '\n\n' %}"
        "{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ first if loop.first else '' }}"
        "{{ text(m.content) | trim }}</turn>\n{% endfor %}{{ '<turn>model\n' }}", "<turn>model\n",
    ),
    "Gemma 4": Family(
        TEXT + "{{ bos_token }}{% if enable_thinking or messages[0].role == 'system' %}<|turn>system\n"
        "{% if enable_thinking %}<|think|>\n{% endif %}{% if messages[0].role == 'system' %}"
        "{{ text(messages[0].content) }}{% endif %}<turn|>\n{% endif %}{% for m in messages if m.role != 'system' %}"
        "<|turn>{{ m.role }}\n{{ text(m.content) }}<turn|>\n{% endfor %}<|turn>model\n"
        "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}",
        "<|turn>model\n<|channel>thought\n<channel|>", "<|turn>model\n<|channel>thought\n",
    ),
    "Mistral 7B": Family(
        ALTERNATES + "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %} [INST] {{ m.content }} [/INST]"
        "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}", "[/INST]", system="merged",
    ),
    "Mistral Small 3": Family(
        "{% set today = strftime_now('%Y-%m-%d') %}{% set usual = 'The current date is ' + today + '.' %}{{ bos_token }}"
        "{% if messages[0].role == 'system' %}{% if messages[0].content is string %}{% set s = messages[0].content %}"
        "{% else %}{% set s = messages[0].content[0].text %}{% endif %}{% set rest = messages[1:] %}{% else %}"
        "{% set s = usual %}{% set rest = messages %}{% endif %}[SYSTEM_PROMPT]{{ s }}[/SYSTEM_PROMPT]"
        "{% for m in rest %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.role == 'assistant' %}"
        "{{ m.content }}{{ eos_token }}{% else %}{{ raise_exception('Only user and assistant') }}{% endif %}{% endfor %}",
        "[/INST]", date="The current date is 2024-07-26.",
    ),
    "Ministral Reasoning": Family(
        TEXT + "{% set usual = 'Think first: [THINK]your thoughts[/THINK]Then answer.' %}{{ bos_token }}"
        "[SYSTEM_PROMPT]{{ text(messages[0].content) if messages[0].role == 'system' else usual }}[/SYSTEM_PROMPT]"
        "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST]{{ text(m.content) }}[/INST]"
        "{% else %}{{ text(m.content) }}{{ eos_token }}{% endif %}{% endfor %}",
        "[/INST][THINK][/THINK]", "[/INST][THINK]",
    ),
    "Phi-3": Family(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<|user|>\n{{ m.content }}<|x|>\n<|assistant|>\n"
        "{% elif m.role == 'assistant' %}{{ m.content }}<|x|>\n{% endif %}{% endfor %}", "<|assistant|>\n",
        system="merged",
    ),
    "Phi-4": Family(
        "{% for m in messages %}{% if m.role == 'system' %}<|im_start|>system<|im_sep|>{{ m.content }}<|im_end|>"
        "{% elif m.role == 'user' %}<|im_start|>user<|im_sep|>{{ m.content }}<|im_end|>{% elif m.role == 'assistant' %}"
        "<|im_start|>assistant<|im_sep|>{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
        "<|im_start|>assistant<|im_sep|>",
    ),
    "Phi-4-mini": Family(
        "{% for m in messages %}{% if m.role == 'system' and m.tools %}{{ raise_exception('no tools were given') }}"
        "{% else %}{{ '<|' + m.role + '|>' + m.content + '<|x|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}", "<|assistant|>",
    ),
    "OLMo 2": Family(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>\n{{ m.content }}"
        "{% if not loop.last %}{{ eos_token + '\n' }}{% endif %}{% else %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}"
        "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}",
        "<|assistant|>\n",
    ),
    "OLMo 3": Family(
        "{% if not messages | selectattr('role', 'equalto', 'system') | list %}<|im_start|>system\nYou have no functions. "
        "{% if tools is none %}{{ '<functions></functions>' }}{% endif %}<|im_end|>\n{% endif %}{% for m in messages %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}{% if m.get('functions', none) is not none %}{{ m.functions }}{% endif %}"
        "<|im_end|>\n{% if loop.last and add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}{% endfor %}",
        "<|im_start|>assistant\n",
    ),
    "OLMo 3 Think": Family(
        CHATML + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>' }}{% endif %}",
        "<|im_start|>assistant\n<think>\n</think>\n\n", "<|im_start|>assistant\n<think>",
    ),
    "Kimi K2": Family(
        "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|sys|>system<|mid|>You are Kimi.<|x|>{% endif %}"
        "{% set token = {'user': '<|usr|>', 'assistant': '<|ast|>'}.get(m.role, '<|sys|>') %}{{ token + m.role + '<|mid|>' }}"
        "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
        "<|x|>{% endfor %}{% if add_generation_prompt %}<|ast|>assistant<|mid|>{% endif %}", "<|ast|>assistant<|mid|>",
    ),
    "DeepSeek-V2": Family(
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}"
        "{% for m in messages %}{% if m.role == 'user' %}{{ 'User: ' + m.content + '\n\n' }}{% elif m.role == 'assistant' %}"
        "{{ 'Assistant: ' + m.content + eos_token }}{% else %}{{ m.content + '\n\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}", "Assistant:",
    ),
    "Falcon 3": Family(
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ '<|system|>\n' + m['content'] + '\n' }}{% elif m['role'] == "
        "'user' %}{{ '<|user|>\n' + m['content'] + '\n' }}{% elif not loop.last %}{{ '<|assistant|>\n' + m['content'] + "
        "eos_token + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
        "<|assistant|>\n",
    ),
    "gpt-oss": Family(
        "{% macro head() %}Current date: {{ strftime_now('%Y-%m-%d') }}\n\nReasoning: {{ reasoning_effort | "
        "default('medium') }}\n\n# Valid channels: analysis, final.{% endmacro %}"
        "{# writes <|channel|> of earlier turns #}<|start|>system<|message|>{{ head() }}<|end|>"
        "{% if messages[0].role == 'system' %}{% set dev = messages[0].content %}{% set rest = messages[1:] %}"
        "<|start|>developer<|message|># Instructions\n\n{{ dev }}<|end|>{% else %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{% if m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
        "<|end|>{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|start|>assistant",
        "<|start|>assistant<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>analysis<|message|>", date="Current date: 2024-07-26",
    ),
    "DeepSeek-R1": Family(
        "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = "
        "m.content %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}{% for m in messages %}{% if m.role == 'user' "
        "%}<|User|>{{ m.content }}{% elif m.role == 'assistant' %}{% set c = m.content %}{% if '</think>' in c %}"
        "{% set c = c.split('</think>')[-1] %}{% endif %}<|Assistant|>{{ c }}{{ eos_token }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}",
        "<|Assistant|><think>\n\n</think>\n\n", "<|Assistant|><think>\n",
    ),
    "DeepSeek-R1, first": Family(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<|Assistant|>{{ m.content.split('</think>')"
        "[-1] }}{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}<|Assistant|>",
        "<|Assistant|><think>\n\n</think>\n\n", "<|Assistant|><think>\n",
    ),
    "DeepSeek-V3.1": Family(
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|Assistant|>"
        "{% if thinking %}<think>{% else %}</think>{% endif %}", "<|Assistant|></think>", "<|Assistant|><think>",
    ),
    "SmolLM3": Family(
        "{% set today = strftime_now('%d %B %Y') %}<|im_start|>system\nToday Date: {{ today }}\nReasoning Mode: "
        "{{ '/think' if enable_thinking else '/no_think' }}\n{% if messages[0].role == 'system' %}"
        "{{ messages[0].content }}{% endif %}<|im_end|>\n{% for m in messages %}{% if m.role != 'system' %}"
        "{% generation %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endgeneration %}{% endif %}{% endfor %}"
        "<|im_start|>assistant\n{% if not enable_thinking %}{{ '<think>\n\n</think>\n' }}{% endif %}",
        "<|im_start|>assistant\n<think>\n\n</think>\n", "<|im_start|>assistant\n<think>\n", date="26 July 2024",
    ),
    "Granite 3.2": Family(
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% else %}{% set s = 'Today\\'s Date: ' + "
        "strftime_now('%B %d, %Y') + '.' %}{% endif %}{% if thinking %}{% set s = s + ' Write your thoughts after '"
        "' Here is my thought process:' ' and the answer after ' 'Here is my response:' %}{% endif %}"
        "<|role|>system<|/role|>{{ s }}<|x|>\n{% for m in messages if m.role != 'system' %}<|role|>{{ m.role }}<|/role|>"
        "{{ m.content }}<|x|>\n{% endfor %}{% if documents %}{{ documents }}{% endif %}<|role|>assistant<|/role|>",
        "<|role|>assistant<|/role|>", "<|role|>assistant<|/role|>Here is my thought process:\n",
        date="Today's Date: July 26, 2024.",
    ),
    "Granite 4": Family(
        "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content"
        " %}{% continue %}{% endif %}{% if loop.index > 99 %}{% break %}{% endif %}{% endfor %}{% if ns.system %}"
        "<|role|>system<|/role|>{{ ns.system }}<|x|>\n{% endif %}{% for m in messages if m.role != 'system' %}"
        "<|role|>{{ m.role }}<|/role|>{{ m.content }}<|x|>\n{% endfor %}<|role|>assistant<|/role|>",
        "<|role|>assistant<|/role|>",
    ),
    "Command A": Family(
        "{{ bos_token }}{% if messages[0].role == 'system' %}<|T|><|SYSTEM|>{{ messages[0].content }}<|/T|>{% endif %}"
        "{% for m in messages if m.role != 'system' %}<|T|><|{{ 'CHATBOT' if m.role == 'assistant' else 'USER' }}|>"
        "{{ m.content }}<|/T|>{% endfor %}<|T|><|CHATBOT|>"
        "{% if not reasoning %}<|START_THINKING|><|END_THINKING|>{% endif %}",
        "<|CHATBOT|><|START_THINKING|><|END_THINKING|><|START_RESPONSE|>", "<|CHATBOT|><|START_THINKING|>",
    ),
    "Apertus": Family(
        TEXT + "{{ bos_token }}<|system_start|>{% if messages[0].role == 'system' %}{{ text(messages[0].content) }}"
        "{% else %}You are Apertus. Today is {{ strftime_now('%Y-%m-%d') }}.{% endif %}<|system_end|><|dev|>Deliberation: "
        "{{ 'enabled' if enable_thinking else 'disabled' }}<|/dev|>{# <|inner_prefix|> <|inner_suffix|> #}"
        "{% for m in messages if m.role != 'system' %}<|{{ m.role }}_start|>{{ text(m.content) }}<|{{ m.role }}_end|>"
        "{% endfor %}<|assistant_start|>", "<|assistant_start|>", "<|assistant_start|><|inner_prefix|>",
        date="Today is 2024-07-26.",
    ),
    "Apriel": Family(
        "{{ bos_token }}<|system|>\nYou think, then write [BEGIN FINAL RESPONSE].{% for m in messages %}\n<|{{ m.role }}|>"
        "\n{{ m.content }}<|end|>{% endfor %}\n{% if add_generation_prompt %}{{ '<|assistant|>\nHere are my reasoning "
        "steps:\n' }}{% endif %}",
        "<|assistant|>\nHere are my reasoning steps:\n\n[BEGIN FINAL RESPONSE]\n",
        "<|assistant|>\nHere are my reasoning steps:\n",
    ),
    "Seed-OSS": Family(
        "{% set begins, ends = '<seed:think>', '</seed:think>' %}{% for m in messages %}{{ bos_token }}{{ m.role }}\n"
        "{{ m.content }}{{ eos_token }}{% endfor %}{{ bos_token + 'assistant\n' }}",
        "assistant\n<seed:think></seed:think>\n", "assistant\n<seed:think>",
    ),
    "EXAONE 4": Family(
        "{% for m in messages %}[|{{ m.role }}|]\n{{ m.content }}[|endofturn|]\n{% endfor %}[|assistant|]\n"
        "{% if enable_thinking is defined and enable_thinking is true %}{{ '<think>\n' }}{% else %}"
        "{{ '<think>\n\n</think>\n\n' }}{% endif %}",
        "[|assistant|]\n<think>\n\n</think>\n\n", "[|assistant|]\n<think>\n",
    ),
    "EXAONE Deep": Family(
        "{% for m in messages %}[|{{ m.role }}|]{{ m.content }}\n{% endfor %}{{ '[|assistant|]<thought>\n' }}",
        "[|assistant|]<thought>\n\n</thought>\n\n", "[|assistant|]<thought>\n",
    ),
    "GLM-4.5": Family(
        "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ '/nothink' if m.role == 'user' and not "
        "enable_thinking and not m.content.endswith('/nothink') else '' }}{% endfor %}<|assistant|>"
        "{{ '' if enable_thinking else '\n<think></think>' }}", "<|assistant|>\n<think></think>",
        "<|assistant|><think>\n",
    ),
    "Hunyuan": Family(
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
        "{{ '<think:opensource>' if enable_thinking else '<think:opensource></think:opensource>' }}",
        "<|assistant|><think:opensource></think:opensource>", "<|assistant|><think:opensource>",
    ),
    "Nemotron": Family(
        "{{ bos_token }}<|system|>detailed thinking {{ 'on' if enable_thinking else 'off' }}\n\n"
        "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
        "{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>",
        "<|assistant|>",
    ),
    "MiniMax-M2": Family(
        "{% for m in messages %}]~b]{{ m.role }}\n{{ m.content }}[e~[\n{% endfor %}]~b]ai\n{{ '<think>\n' }}",
        "]~b]ai\n<think>\n\n</think>\n\n", "]~b]ai\n<think>\n",
    ),
    "Zephyr": Family(
        "{% for m in messages %}\n{% if m.role == 'user' %}\n{{ '<|user|>\n' + m.content + eos_token }}\n{% elif m.role =="
        " 'system' %}\n{{ '<|system|>\n' + m.content + eos_token }}\n{% else %}\n{{ '<|assistant|>\n' + m.content + "
        "eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n"
        "{% endfor %}", "<|assistant|>\n",
    ),
    "SmolVLM": Family(
        "{% for m in messages %}{{ m.role | capitalize }}: " + PARTS + "<x>\n{% endfor %}Assistant:", "Assistant:",
    ),
    "one question alone": Family(
        "{{ bos_token }}Q: {{ messages[-1].content }}\nA:", "\nA:", system="merged", turns=False,
    ),
}  # fmt: skip
SYSTEM, TURNS, USER = "For this task you are a Hindu.", (("user", "A bird?"), ("assistant", "30")), 'They lost "a dog".'


@pytest.fixture(scope="module")
def tokenizer_of(tiny_model):
    """Return a function that gives the tiny model's tokenizer, without a token for <think>, with a template."""

    def made(own, **options):
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(tiny_model)
        hf.chat_template, hf.bos_token = own, "<|start|>"
        tokenizer = ChatTokenizer(hf, name="tiny", **options)
        tokenizer._is_token = lambda mark: False
        return tokenizer

    return made


def test_there_are_thirty_families():
    assert len(FAMILIES) >= 30


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_s_template_shows_all_that_is_said_once_and_in_order(name, tokenizer_of):
    family = FAMILIES[name]
    tokenizer = tokenizer_of(family.template)
    prompts = [Prompt(SYSTEM, USER), Prompt("", USER)]
    if family.turns:
        prompts += [Prompt(SYSTEM, USER, TURNS), Prompt("", USER, TURNS, "Number: ")]
    encoded = tokenizer.encode_prompts(prompts)  # which refuses what is not so
    for prompt, ids in zip(prompts, encoded, strict=True):
        text = tokenizer.render(prompt)
        said = [each for each in (prompt.system, *(text for _, text in prompt.turns), prompt.user) if each]
        places = [text.index(each) for each in said]
        assert places == sorted(places)
        assert [text.count(each) for each in said] == [1] * len(said)
        assert text.endswith(family.off + prompt.begun)
        if (
            "bos_token" in family.template
        ):  # as often as the template writes it between turns, and not twice at the head
            assert ids[0] == tokenizer.hf.bos_token_id != ids[1]
    assert tokenizer.has_system_role == (family.system == "own")
    if not family.turns:
        with pytest.raises(ModelError, match="drops earlier turns"):
            tokenizer.encode_prompts([Prompt(SYSTEM, USER, TURNS)])


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.on is not None])
def test_a_family_thinks_where_its_template_lets_it(name, tokenizer_of):
    family = FAMILIES[name]
    tokenizer = tokenizer_of(family.template)
    assert tokenizer.render(Prompt(SYSTEM, USER, thinks=True)).endswith(family.on)
    dialect = tokenizer.thinking
    after = tokenizer.render(Prompt(SYSTEM, USER, thought="A dog, so 7."))
    assert after.endswith(f"{family.on}A dog, so 7.{dialect.closes}{dialect.answers}")


OWN_SYSTEM = {
    "Qwen2.5": "You are helpful.", "OLMo 3": "You have no functions. <functions></functions>",
    "Kimi K2": "You are Kimi.", "Mistral Small 3": "The current date is 2024-07-26.",
    "Ministral Reasoning": "Think first: [THINK]your thoughts[/THINK]Then answer.",
    "Granite 3.2": "Today's Date: July 26, 2024.", "Apertus": "You are Apertus. Today is 2024-07-26.",
}  # fmt: skip


def test_what_a_family_says_for_want_of_a_system_message_is_found(tokenizer_of):
    found = {name: tokenizer_of(family.template).own_system for name, family in FAMILIES.items()}
    assert {name: own for name, own in found.items() if own} == OWN_SYSTEM


def test_a_template_that_wants_a_system_message_has_none_of_its_own(tokenizer_of):
    wants = "{% if messages[0].role != 'system' %}{{ raise_exception('a system message first') }}{% endif %}" + CHATML
    assert tokenizer_of(wants).own_system == ""


def test_an_opening_token_that_also_ends_messages_stands_once_before_them(tokenizer_of):
    # OLMo 2's opening and end token are one, and its tokenizer puts none before a text.
    tokenizer = tokenizer_of(FAMILIES["OLMo 2"].template)
    tokenizer.hf.bos_token = tokenizer.hf.eos_token
    tokenizer._encode_with_added = tokenizer.encode
    end = tokenizer.hf.eos_token_id
    [short, long] = tokenizer.encode_prompts([Prompt(SYSTEM, USER), Prompt(SYSTEM, USER, TURNS)])
    assert (short[0], short.count(end)) == (end, 1)
    assert (long[0], long.count(end)) == (end, 2)  # and one after the assistant's turn
    assert tokenizer.say_chat() == ""


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.date])
def test_a_family_that_prints_the_date_prints_the_run_s(name, tokenizer_of):
    tokenizer = tokenizer_of(FAMILIES[name].template)
    assert FAMILIES[name].date in tokenizer.render(Prompt("", USER))
    assert tokenizer.chat["date"] == "2024-07-26"
    assert "2031" in tokenizer_of(FAMILIES[name].template, date="2031-01-09").render(Prompt("", USER))


def test_parts_are_tried_where_a_text_is_not_shown_and_that_is_told_of_the_run(tokenizer_of):
    tokenizer = tokenizer_of(FAMILIES["SmolVLM"].template)
    assert tokenizer.chat_identity["content"] == "parts"
    assert "lists of parts" in tokenizer.say_chat()
    strict = "{% if messages[0].content is string %}{{ raise_exception('parts alone') }}{% endif %}"
    assert USER in tokenizer_of(strict + FAMILIES["SmolVLM"].template).render(Prompt("", USER))
    assert "content" not in tokenizer_of(FAMILIES["Gemma 3"].template).chat_identity


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "{% for m in messages %}{{ m.role }}{% endfor %}>",
            "leaves out the user's message, both as text and as a list",
        ),
        ("{% for m in messages %}{{ m.content[:20] }}\n{% endfor %}>", r"leaves out .*user"),
        ("{{ messages[-1].content }}\n{{ messages[0].content }}>", r"changes the order .*user"),
        (CHATML + "{{ messages[-1].content }}>", r"repeats part of the messages \(user"),
        ("{{ messages[0].content }}" + CHATML, r"repeats part of the messages \(system"),
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}empathy-audit-system-role", r"leaves out .*system"),
        ("{% for m in messages %}{{ m.content.split('\"')[0] }}\n{% endfor %}>", r"leaves out .*user"),
    ],
)
@pytest.mark.parametrize("whose", ["the model's own", "the user's"])
def test_a_template_that_does_not_show_what_is_said_once_and_in_order_is_refused(
    template, said, whose, tokenizer_of, tmp_path
):
    (tmp_path / "own.jinja").write_text(template)
    own = None if whose == "the model's own" else str(tmp_path / "own.jinja")
    with pytest.raises(ModelError, match=said) as raised:
        tokenizer_of(CHATML if own else template, template=read_template(own)).encode_prompts([Prompt(SYSTEM, USER)])
    assert len(str(raised.value).splitlines()) == 1
    assert ("own.jinja" if own else "model tiny") in str(raised.value)
    assert "model.chat_template=FILE" in str(raised.value)


def test_a_template_that_wants_a_system_message_gets_one_where_there_is_one(tokenizer_of):
    wants = "{% if messages[0].role != 'system' %}{{ raise_exception('a system message first') }}{% endif %}" + CHATML
    assert USER in tokenizer_of(wants).render(Prompt(SYSTEM, USER))
    assert "content" not in tokenizer_of(wants).chat
    with pytest.raises(ModelError, match="a system message first"):
        tokenizer_of(wants).encode_prompts([Prompt("", USER)])


def test_a_token_that_begins_a_text_late_is_not_put_before_it_again(tokenizer_of):
    late = tokenizer_of("A conversation of two people, in their words. {{ bos_token }}" + CHATML)
    [ids] = late.encode_prompts([Prompt(SYSTEM, USER)])
    assert ids.count(late.hf.bos_token_id) == 1
    assert "writes 'A conversation of two people, in their words. ' before <|start|>" in late.say_chat()


@pytest.mark.parametrize("mark", ["<|begin_cot|>", "[START REASONING]", "<ponder-thought>\n"])
def test_a_thought_that_a_template_opens_by_unknown_marks_is_to_be_named(mark, tokenizer_of):
    template = CHATML + "<|im_start|>assistant{{ '" + mark.replace("\n", "\\n") + "' }}"
    with pytest.raises(ModelError, match=r"opens a thought with .*thinking\.marks=") as raised:
        tokenizer_of(template).encode_prompts([Prompt(SYSTEM, USER)])
    assert mark.strip() in str(raised.value)
    named = tokenizer_of(template, thinks_in=(mark.strip(), "/end/"))
    named.encode_prompts([Prompt(SYSTEM, USER)])
    assert named.render(Prompt(SYSTEM, USER)).endswith(f"{mark}/end/")


def test_a_thought_may_repeat_the_question(tokenizer_of):
    tokenizer = tokenizer_of(FAMILIES["Qwen3"].template)
    [ids] = tokenizer.encode_prompts([Prompt(SYSTEM, USER, thought=f"{SYSTEM} {USER}", begun=USER)])
    assert tokenizer.hf.decode(ids).count(USER) == 3


def test_a_template_sees_what_transformers_shows_it_and_writes_json_as_it_does(tokenizer_of):
    hf = tokenizer_of(CHATML).hf
    hf.chat_template = (
        "{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ bos_token }}{{ messages | tojson }}"
        "{{ messages[0] | tojson(indent=2) }}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
        "{{ m.content }}{% break %}{% endfor %}{% generation %}{{ 'é<&>' }}{% endgeneration %}"
        "\n  {% if true %}\n  x\n  {% endif %}\n"
    )
    messages = [{"role": "user", "content": 'é<&>"\n'}, {"role": "assistant", "content": "x"}]
    theirs = hf.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert rendered(hf.chat_template, messages, hf.special_tokens_map) == theirs


@pytest.mark.parametrize(
    ("family", "says"),
    [
        ("Qwen3", {"thoughts": "marks of think ('<think>', '</think>'); off when told", "system role": "shown"}),
        ("Llama 2", {"an answer begins after": "' [/INST]'", "opening token": "<|start|> once"}),
        ("one question alone", {"system role": "none; its text goes before the first question",
                                "earlier turns": "dropped: strategies with calls are refused"}),
        ("SmolVLM", {"content of a message": "a list of parts", "date": "none", "thoughts": "no known marks"}),
        ("Llama 3.2", {"date": "model.date=2024-07-26", "content of a message": "a text", "system role": "shown"}),
        ("OLMo 3", {"system role": "shown; without a message, the template writes its own: 'You have no functions. "
                                   "<functions></functions>'"}),
    ],
)  # fmt: skip
def test_what_was_found_of_a_template_is_told_in_ten_lines(family, says, tokenizer_of):
    lines = dict(line.split(": ", 1) for line in tokenizer_of(FAMILIES[family].template).describe())
    assert len(lines) == 10
    assert {name: lines[name] for name in says} == says
    assert f"{len(FAMILIES[family].template):,} characters" in lines["template"]
