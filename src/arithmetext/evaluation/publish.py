"""Make a model that comes with the package from a run of the recipe with the same name.

`python -m arithmetext.evaluation.publish RUN` rounds the weights of a finished run to bfloat16,
measures the rounded model, and writes it to its folder in the package (`models.config.PACKAGED`)
with a model card and the record of the run, which studies read.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import torch

from ..errors import InputError
from ..files import write_whole
from ..integers import format_integer
from ..models.config import PACKAGED
from ..models.files import save
from ..models.language import TrainableModel
from ..text.splits import unseen
from ..training import run_cache
from ..training.config import DECADES, differences
from ..training.recipes import recipe
from ..training.run_folder import RunFolder, run_folder
from ..version import __version__
from .context import WORD_TOKENS
from .estimates import Estimate, format_estimate, ratio
from .evaluate import SEQUENCES_PER_PROMPT
from .generation import continue_prompts
from .prompts import draw
from .scoring import score
from .subjects import EvaluatedModel, subject
from .words import accuracies

PLACES = (97_600_000_000, 10**13, 10**14, 10**15)
PROMPTS = 32  # at each place

CARD = """\
---
license: mit
library_name: {library}
pipeline_tag: text-generation
tags:
- mathematics
- number-theory
---

# {title}

Factor an integer, then factor its exponents, and so on: every n > 1 becomes a rooted tree, and a
walk around the tree writes it as a Dyck word. This model continues the text of the words of 2, 3,
4, …, one word after the other. It comes with arithmetext {version} under the name `{name}`.

{description}

## Use

```
nt generate {name} --at 1e13 --words 8
```

In Python, with arithmetext alone:

```python
import arithmetext as nt
from arithmetext.models.files import {variable}, load

ours, _ = load({variable})  # a torch.nn.Module, in float32
window = nt.words(10**13 - {context}, 10**13)
text = "".join(nt.unpack(int(word)) + " " for word in window)  # a space ends each word
```

{transformers}## Training

- Text: random windows of the paper's training ranges, which hold {trained} of the integers 2..{n}.
  There is no corpus; the windows are made by a sieve when they are needed.{spread}
- Tokenizer: {size} tokens. The commonest words have a token each; the others are spelled.
- Length: {steps:,} steps of {batch:,} tokens, {millions:.1f} million tokens in all.
- Optimizer: {optimizer}, learning rate {lr:g} with a warm-up of {warmup} steps and a cosine to 0.
- Hardware: {device}, {threads} threads, in {precision}, PyTorch {torch}.
- Time: {minutes:.0f} minutes.
- Lowest validation loss: {loss:.3f} nats a word, before the weights were rounded.

`record.json` has the configuration, the environment and the losses of this run.
`nt train {name}` repeats the training. On a CPU it computes in float32, which takes longer. In
another precision or on another device the weights come out slightly different.

## Accuracy

{rows}

- *Words right* is the share of generated words that are right. At each place {prompts} prompts of
  {context} tokens are continued by {context} tokens, always the likeliest one.{sliding}
- *Nats per word* is the loss on {sequences} windows of true text at each place, each token
  predicted from {shortest} to {longest} tokens before it.

Intervals are 95 %, bootstrapped over prompts and windows. None of this text was used for training
or validation. `nt evaluate {name} --at N --prompts {prompts}` measures the same numbers and
many more{evaluating}.

## Limits

- It is small, and it has read {millions:.1f} million tokens of a text of {trained} words.
{reach}
- It sees the words before n but not n itself, so it is neither a prime test nor a way to factor: it
  guesses each word from what usually follows.
- It was trained below {n}. The text gets harder as n grows.
"""

SPREAD = """
  {:.0%} of the windows are spread evenly in log n over {} decades, the others evenly in n."""

TRANSFORMERS = """\
With transformers (`pip install transformers`; `PRETRAINED` is the path of this folder):

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(PRETRAINED)
model = AutoModelForCausalLM.from_pretrained(PRETRAINED, dtype="float32")
ids = tokenizer(text, return_tensors="pt")["input_ids"][:, -{prompt}:]
answer = model.generate(ids, max_new_tokens=8, do_sample=False)[0, -8:]
print(tokenizer.decode(answer))  # the words of 10^13, 10^13 + 1, …, as the model guesses them
```

"""

TRANSFORMERS_OURS = """\
With transformers (`pip install transformers`), whose `generate` is much slower here and which
returns no hidden states (`{variable}` is the path of this folder):

```python
import arithmetext.transformers  # it registers the model, so this line is needed
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({variable})
model = AutoModelForCausalLM.from_pretrained({variable}, dtype="float32")
ids = tokenizer(text, return_tensors="pt")["input_ids"]
answer = model.generate(ids, max_new_tokens=8, do_sample=False)[0, -8:]
print(tokenizer.decode(answer))  # the words of 10^13, 10^13 + 1, …, as the model guesses them
```

"""


@dataclass(frozen=True)
class Kind:
    """What the card says of one kind of model."""

    title: str
    variable: str  # the folder of the model, in `models.files`
    library: str  # that can load it
    transformers: str
    sliding: str
    evaluating: str  # how long it takes
    reach: str


KINDS = {
    "pretrained": Kind(
        title="A small GPT of the arithmetic text",
        variable="PRETRAINED",
        library="transformers",
        transformers=TRANSFORMERS,
        sliding=" When the context is\n  full, its oldest quarter is dropped.",
        evaluating=", which takes hours on a CPU",
        reach="- It reads at most {context} tokens at once and has seen no later position, so cut"
        " longer prompts.",
    ),
    "longconv": Kind(
        title="Long convolutions on the arithmetic text",
        variable="LONGCONV",
        library="arithmetext",
        transformers=TRANSFORMERS_OURS,
        sliding="",
        evaluating="",
        reach="- Each of its layers sees {context} tokens back, and prompts of any length can be"
        " read. Prompts\n  much shorter than {context} tokens tell it little.",
    ),
    "record": Kind(
        title="Phases of prime powers in the arithmetic text",
        variable="RECORD",
        library="arithmetext",
        transformers=TRANSFORMERS_OURS,
        sliding="",
        evaluating="",
        reach="- It is told that prime powers have periods. It has not found that out.\n"
        "- Prompts of any length can be read. Prompts much shorter than {context} tokens tell it"
        " little.",
    ),
}


def publish(
    run: Path, folder: Path, places: Sequence[int] = PLACES, prompts: int = PROMPTS
) -> None:
    """Write the model of a finished run, rounded to bfloat16, to a folder.

    Its model card and the record of the run (`training.run_cache`) come beside it.
    """
    about = run_folder(run)
    name = recipe_of(run)
    trained = subject(str(run), places[0])
    model = trained.model
    assert isinstance(model, TrainableModel)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    rows = [(at, *measure(trained, at, prompts)) for at in places]
    card = model_card(name, about, model, rows, prompts)
    save(model, trained.tokenizer, folder, dtype=torch.bfloat16)
    record = run_cache.new_record(run) | {"sources": run_cache.of_weights(name, folder)}
    write_whole(folder / run_cache.RECORD, json.dumps(record))
    write_whole(folder / "README.md", card)


def recipe_of(run: Path) -> str:
    """The recipe of a run, one of those with a model in the package; other runs are refused."""
    config = run_folder(run).config
    unlike = {name: differences(config, recipe(name)) for name in PACKAGED}
    name = min(unlike, key=lambda name: len(unlike[name]))
    for difference in unlike[name][:1]:
        raise InputError(f"{run} is no run of the recipe {name}: {difference} in the recipe")
    return name


def measure(trained: EvaluatedModel, at: int, prompts: int) -> tuple[Estimate, Estimate]:
    """Word accuracy and nats per word near `at`: two of the numbers of `nt evaluate`.

    They are the accuracy with a stride of a quarter of the context, and the nats per word for the
    longest contexts. The rest of `nt evaluate` takes hours on a CPU.
    """
    model, tokenizer, length = trained.model, trained.tokenizer, trained.context
    window = unseen(at, trained.seen)
    drawn = draw(tokenizer, window, number=prompts, length=length, following=length)
    made = continue_prompts(model, drawn, length, stride=max(1, length // 4))
    accuracy = ratio(accuracies(made.predicted, made.true))

    sequences = SEQUENCES_PER_PROMPT * prompts
    ids = draw(tokenizer, window, number=sequences, length=length, following=WORD_TOKENS).ids
    first = shortest_context(length)
    nats = -score(model, ids).logs[:, first - 1 :].sum(1)  # scores begin with the second token
    words = tokenizer.words_ended[ids.numpy()][:, first:].sum(1)
    return accuracy, ratio(nats, words)


def shortest_context(length: int) -> int:
    """The fewest tokens of context that count for nats: a power of two, 512 of 1024."""
    return 1 << (length - 1).bit_length() - 1


def model_card(
    name: str,
    about: RunFolder,
    model: TrainableModel,
    rows: Sequence[tuple[int, Estimate, Estimate]],
    prompts: int,
) -> str:
    """The model card; `rows` are places with their accuracy and nats per word."""
    config, training = about.config, about.config.training
    table = ["| near | words right | nats per word |", "|---|---|---|"]
    table += [
        f"| {format_integer(at)} | {format_estimate(accuracy)} | {format_estimate(nats)} |"
        for at, accuracy, nats in rows
    ]
    context, kind = model.config.context, KINDS[name]
    return CARD.format(
        version=__version__,
        name=name,
        title=kind.title,
        variable=kind.variable,
        library=kind.library,
        transformers=kind.transformers.format(prompt=context - 8, variable=kind.variable),
        sliding=kind.sliding,
        evaluating=kind.evaluating,
        reach=kind.reach.format(context=context),
        description=fill(f"{model.description}. The weights are stored in bfloat16.", 100),
        context=context,
        spread=SPREAD.format(training.log_share, DECADES) if training.log_share else "",
        trained=format_integer(sum(hi - lo for lo, hi in config.text.train)),
        n=format_integer(config.n),
        size=config.tokens.size,
        steps=about.steps,
        batch=training.batch,
        millions=about.steps * training.batch / 1e6,
        optimizer=training.optimizer,
        lr=training.lr,
        warmup=training.warmup,
        device=about.environment["device"],
        threads=about.environment["threads"],
        precision=about.environment["precision"],
        torch=about.environment["torch"],
        minutes=about.curve("seconds")[-1][1] / 60,
        loss=min(nats for _, nats in about.curve("validation_nats_per_word")),
        rows="\n".join(table),
        prompts=prompts,
        sequences=SEQUENCES_PER_PROMPT * prompts,
        shortest=shortest_context(context),
        longest=context - 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m arithmetext.evaluation.publish",
        description="Replace a model that comes with the package: the one with the recipe's name.",
    )
    parser.add_argument("run", metavar="RUN", type=Path, help="Folder of a finished run.")
    try:
        run = parser.parse_args().run
        publish(run, PACKAGED[recipe_of(run)])
    except InputError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
