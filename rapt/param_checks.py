"""What must hold between the sections of params.yaml: each name stands for an entry that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING

from rapt.attacks.base import Inference, Inversion, Linkage, Membership
from rapt.attacks.entities import Ner
from rapt.grid import CLEAN, LOCAL, TUNED, plan
from rapt.kinds import KINDS
from rapt.param_types import level
from rapt.tasks.base import Task
from rapt.tuning.strategies import Gradient
from rapt.tuning.tuners import Tuner
from rapt.utils.errors import not_allowed

if TYPE_CHECKING:
    from rapt.params import Params

# What a use of a release may need of its unit (`Released`), in words.
NEEDED = {
    "aligned": "a word for each word",
    "by_word": "a word, or a state, for each word",
    "has_channel": "words alone, one for each word",
    "has_words": "words",
}


def problems(p: Params) -> list[str]:
    """Return a line for each problem."""
    # Names that are wrong make cells collide, too.
    return list(_references(p)) or list(_collisions(p))


def _references(p: Params) -> Iterable[str]:
    """Every name that stands for an entry elsewhere must stand there, and fit its use."""
    unknown = [
        not_allowed(f"sweep.{field}", name, getattr(p, field))
        for field in ("tasks", "methods", "embeddings")
        for name in getattr(p.sweep, field)
        if name not in getattr(p, field)
    ]
    if unknown:  # what follows would repeat it, and advise the typo to the lists that read it
        yield from unknown
        return
    swept = {name: p.tasks[name] for name in p.sweep.tasks}
    if kindless := [name for name, task in p.tasks.items() if task.kind not in KINDS]:
        for name in kindless:
            yield not_allowed(f"tasks.{name}.kind", p.tasks[name].kind, KINDS)
        return
    tuned = [name for name, task in swept.items() if task.is_tuned]
    scored = [name for name in tuned if swept[name].scored_apart]
    readers = p.sweep.channel_readers
    for field, names in _allowed(p, swept, tuned, scored).items():
        for given in getattr(p.sweep, field):
            if given not in names:
                yield not_allowed(f"sweep.{field}", given, names)
    if readers and not p.channel.by_frequency:
        yield f"channel.by_frequency: got 0, expected a number above 0 with {readers}."
    if p.embedding not in p.sweep.embeddings:
        yield not_allowed("embedding", p.embedding, p.sweep.embeddings)
    factors: dict[str, Iterable[str]] = {
        "task": [name for name in tuned if name not in scored],
        "embedding": p.sweep.embeddings,
        "backbone": p.backbones,
        "tuner": p.tuners,
        "method": p.methods,
    }
    for study, cell in p.studies.items():
        for factor, names in factors.items():
            if (given := getattr(cell, factor)) not in names:
                yield not_allowed(f"studies.{study}.{factor}", given, names)
    for name in (*p.sweep.inversions, *p.sweep.channel_inversions):
        how = p.attacks.get(name)
        if not isinstance(how, Inversion):
            continue
        if how.takes > p.seeds:
            yield f"attacks.{name}.copies: got {how.takes}, expected at most {p.seeds}."
        for task in how.reads:
            if task not in swept:
                yield not_allowed(f"attacks.{name}.public_text", task, swept)
    yield from _untunable(p)
    yield from _words_alone(p)
    yield from _gradients(p)
    yield from _at_home(p)
    yield from _shards(p)
    yield from _without_clean(p)
    yield from _scored_apart(p, scored)
    yield from _without_classes(p)
    yield from _labels(p)
    yield from _synthesized(p)
    yield from dict.fromkeys(_of_units(p))
    yield from _pretrained(p)
    yield from _public_labels(p)


def _allowed(
    p: Params, swept: Mapping[str, Task], tuned: list[str], scored: list[str]
) -> dict[str, Iterable[str]]:
    """For each list of the sweep the names that it may hold."""
    sweep = p.sweep
    # P(y|w) is a channel from words to words; what reads it reads a release, too.
    released = sweep.methods if sweep.channel_readers else p.methods
    inversions = {n: how for n, how in p.attacks.items() if isinstance(how, Inversion)}
    drawn = [name for name, how in p.methods.items() if how.releases.has_channel]
    return {
        "train": tuned,
        "score": [name for name in sweep.train if name in scored],
        "invert": swept,
        "infer": [name for name, task in swept.items() if task.inferred],
        "recognize": swept,
        "embeddings": p.embeddings,
        "backbones": p.backbones,
        "tuners": p.tuners,
        "probes": [name for name in p.tuners if name not in sweep.tuners],
        "methods": p.methods,
        "synthesizers": p.synthesizers,
        "tune_at": sweep.etas,
        "attacked": sweep.methods,
        "channels": [name for name in drawn if name in released],
        "denoisers": p.denoisers,
        "inversions": [n for n, how in inversions.items() if not how.reads_channel],
        "channel_inversions": [n for n, how in inversions.items() if how.reads_channel],
        "inferences": [n for n, how in p.attacks.items() if isinstance(how, Inference)],
        "linkages": [n for n, how in p.attacks.items() if isinstance(how, Linkage)],
        "memberships": [n for n, how in p.attacks.items() if isinstance(how, Membership)],
        "recognitions": [n for n, how in p.attacks.items() if isinstance(how, Ner)],
        "layers": [f"{method}-{eta}" for method, eta in product(sweep.methods, sweep.tune_at)],
    }


def _untunable(p: Params) -> Iterable[str]:
    """Every tuner fits its tasks, and its backbones: of a fresh encoder all weights learn."""
    sweep = p.sweep
    given = {
        (f"sweep.{key}", *factors)
        for key in ("tuners", "probes")
        for factors in product(sweep.train, sweep.backbones, getattr(sweep, key))
    } | {(f"studies.{name}.tuner", s.task, s.backbone, s.tuner) for name, s in p.studies.items()}
    full = [name for name, tuner in p.tuners.items() if tuner.takes_fresh()]
    for key, task, backbone, tuner in sorted(given):
        if task not in p.tasks or backbone not in p.backbones or tuner not in p.tuners:
            continue  # told elsewhere
        kind, encoder = p.kind(task), p.backbones[backbone].encoder
        if not p.tuners[tuner].fits(kind):
            others = [name for name, other in p.tuners.items() if other.fits(kind)]
            yield not_allowed(f"{key} (with task {task}, of kind {kind.name})", tuner, others)
        elif encoder and kind.is_language_model:
            yield (
                f"backbones.{backbone}.encoder: got one with task {task}, of kind {kind.name}, "
                "expected null. A language model answers."
            )
        elif encoder and tuner not in full:
            yield not_allowed(f"{key} (with backbone {backbone})", tuner, full)


def _words_alone(p: Params) -> Iterable[str]:
    """TF-IDF has no hidden states to compare, and no vectors to denoise."""
    for tuner, key in product(p.sweep.tuners, ("denoisers", "layers")):
        of = p.tuners.get(tuner)
        if of and of.reads_words and getattr(p.sweep, key):
            yield (
                f"sweep.{key}: got some with tuner {tuner}, which reads words alone, expected "
                "none. List it in sweep.probes."
            )


def _pretrained(p: Params) -> Iterable[str]:
    """What a backbone reads before is public, and of the sweep, which fetches it."""
    sweep = p.sweep
    public = _public_tasks(p)
    used = {*sweep.backbones, *(study.backbone for study in p.studies.values())}
    for name, backbone in p.backbones.items():
        how, key = backbone.pretrained, f"backbones.{name}"
        if how is None or name not in used:
            continue
        if name not in sweep.backbones:
            yield f"sweep.backbones: got no {name}, expected each of studies that is pretrained."
        if backbone.encoder:
            yield f"{key}.pretrained: got one with an encoder, expected null beside it."
        for task in how.corpus:
            if task not in public:
                yield not_allowed(f"{key}.pretrained.corpus", task, public)
        if how.method not in p.methods:
            yield not_allowed(f"{key}.pretrained.method", how.method, p.methods)
        elif not p.methods[how.method].releases.aligned:
            yield (
                f"{key}.pretrained.method: got {how.method}, which releases "
                f"{p.methods[how.method].releases.name}, expected one that releases "
                f"{NEEDED['aligned']}."
            )


def _public_tasks(p: Params) -> list[str]:
    """Return the tasks of the sweep, which fetches them, that are not tuned on."""
    private = {*p.sweep.train, *(study.task for study in p.studies.values())}
    return [task for task in p.sweep.tasks if task not in private]


def _public_labels(p: Params) -> Iterable[str]:
    """A provider who learns from a public task answers with the classes of the private one."""
    labelled = [name for name in p.sweep.train if name in p.tasks and p.tasks[name].names]
    for name, public in p.public_labels.items():
        key = f"public_labels.{name}"
        if name not in labelled:
            yield not_allowed("public_labels", name, labelled)
        elif public == name:
            yield f"{key}: got {public} itself, expected the name of a public task."
        elif public not in _public_tasks(p):
            yield not_allowed(key, public, _public_tasks(p))
        elif (own := _form(p.tasks[name])) != (other := _form(p.tasks[public])):
            yield f"{key}: got {public} with {other}, expected a task with {own}."


def _form(task: Task) -> str:
    """What a model of one task must share with another to answer its texts, in words."""
    of = "pairs" if getattr(task, "text_pair", None) else "texts"
    return f"{of} of kind {task.kind}, labels {', '.join(sorted(task.names or ())) or 'none'}"


def _gradients(p: Params) -> Iterable[str]:
    """A capped reconstruction has a gradient of its own, and what takes no steps has none."""
    given = p.train.gradient.type
    private = [name for name, tuner in p.tuners.items() if _private(tuner)]
    for name, method in p.methods.items():
        if not (method.reconstruction and method.reconstruction.cap):
            continue
        where = "train.gradient" if given != "plain" else ""
        where = where or (f"tuners.{private[0]}.private" if private else "")
        if where:
            yield (
                f"{where}: got {given if given != 'plain' else 'one'} with methods.{name}."
                "reconstruction.cap, expected plain, or no cap."
            )
    for name, tuner in p.tuners.items():
        if given == "private" and getattr(tuner, "federated", None):
            yield (
                f"train.gradient: got private with tuners.{name}.federated, expected plain: the "
                "noise of a federated training is the server's."
            )
        if given == "private" and tuner.reads_words:
            yield (
                f"train.gradient: got private with tuners.{name}, of type {tuner.type}, which "
                "takes no steps, expected plain."
            )


def _at_home(p: Params) -> Iterable[str]:
    """Authors are a unit, and a policy finds words, on clean text of tasks that suit."""
    wrong: dict[str, str] = {}
    for cell in plan(p):
        task, name = cell.factors["task"], cell.factors.get("tuner")
        if task not in p.tasks or name not in p.tuners:
            continue
        own, is_clean = _private(p.tuners[name]), cell.factors["method"] == CLEAN
        key, how = (f"tuners.{name}.private", own) if own else ("train.gradient", p.train.gradient)
        of = f"{cell.cell} of kind {cell.kind}, expected cells on clean text"
        by_author = is_clean and p.tasks[task].identifying and cell.kind != "membership"
        if getattr(how, "unit", None) == "author" and not by_author:
            wrong.setdefault(f"{key}.unit: got author", f"{of} with authors, and no attacker.")
        if getattr(how, "policy", None) and not (is_clean and p.kind(task).has_classes):
            wrong.setdefault(f"{key}.policy: got one", f"{of} with classes.")
    yield from (
        f"{got} for {of} Empty sweep.tune_at, or leave it out." for got, of in wrong.items()
    )


def _private(tuner: Tuner) -> Gradient | None:
    """Return a tuner's private gradient; None: it has none of its own."""
    return getattr(tuner, "private", None)


def _shards(p: Params) -> Iterable[str]:
    """Each seed has a shard of its own, and a membership attack's members are all rows."""
    shards = p.train.shards
    if shards not in (1, p.seeds):
        yield f"train.shards: got {shards} with {p.seeds} seeds, expected {p.seeds}, or 1."
    if shards > 1 and p.sweep.memberships:
        yield f"train.shards: got {shards} with sweep.memberships, expected 1."


def _without_clean(p: Params) -> Iterable[str]:
    """Hidden states are compared layer by layer with those of the clean model."""
    for task in p.sweep.train if p.sweep.layers else ():
        if task not in p.tasks:
            continue
        kind = p.kind(task)
        if kind.is_language_model or not kind.has_classes:
            yield (
                f"sweep.layers: got task {task}, of kind {kind.name}, expected kind classify. "
                "Empty sweep.layers."
            )
    for name in p.sweep.backbones if p.sweep.layers else ():
        if name in p.backbones and p.backbones[name].encoder:
            yield f"sweep.layers: got backbone {name} with an encoder, expected one without."


def _scored_apart(p: Params, scored: list[str]) -> Iterable[str]:
    """Texts are written of words, and scored by the stage `score` alone."""
    sweep = p.sweep
    tuned = [name for name in scored if name in sweep.train]
    if left := [name for name in tuned if name not in sweep.score]:
        kind = p.tasks[left[0]].kind
        yield f"sweep.score: got no {', '.join(left)}, expected every task of kind {kind}."
    for key in ("probes", "denoisers") if tuned else ():
        if getattr(sweep, key):
            yield _no_use(p, key, tuned[0])


def _without_classes(p: Params) -> Iterable[str]:
    """An attack on memberships asks a model for the probabilities of classes."""
    for task in p.sweep.train if p.sweep.memberships else ():
        if task in p.tasks and not p.kind(task).has_classes:
            yield _no_use(p, "memberships", task)


def _labels(p: Params) -> Iterable[str]:
    """Randomized response draws a label among classes."""
    used = {*p.sweep.tasks, *(cell.task for cell in p.studies.values())}
    for method, how in p.methods.items():
        for name, task in p.tasks.items() if how.labels else ():
            if name in used and task.targets and not task.names:
                yield (
                    f"methods.{method}.labels: got some with task {name} of kind {task.kind}, "
                    "expected null, as it has no classes."
                )


def _synthesized(p: Params) -> Iterable[str]:
    """Synthetic texts are single texts of a class, at some ε."""
    if not p.sweep.synthesizers:
        return
    if not p.sweep.epsilons:
        yield "sweep.epsilons: got none with sweep.synthesizers, expected some."
    for name in p.sweep.train:
        kind, is_pair = p.kind(name), getattr(p.tasks[name], "text_pair", None)
        if is_pair or kind.is_language_model or not kind.has_classes:
            what = "pairs" if is_pair else f"kind {kind.name}"
            yield (
                f"sweep.synthesizers: got some with task {name} of {what}, expected tasks of "
                "single texts with a class."
            )


def _no_use(p: Params, key: str, task: str) -> str:
    kind = p.tasks[task].kind
    return f"sweep.{key}: got some with task {task}, of kind {kind}, expected none."


def _of_units(p: Params) -> Iterable[str]:
    """What reads words, or words one for one, has a release of such."""
    for method, use, needs in _uses(p):
        unit = p.methods[method].releases if method in p.methods else None
        if unit and not getattr(unit, needs):
            yield (
                f"methods.{method}: got a mechanism that releases {unit.name}, with {use}, "
                f"expected one that releases {NEEDED[needs]}."
            )


def _uses(p: Params) -> Iterable[tuple[str, str, str]]:
    """Each method, a use of its releases, and what of `Released` the use needs."""
    sweep = p.sweep
    tuned = [
        (method, task, tuner)
        for methods, tuners in ((sweep.methods, sweep.tuners), (sweep.attacked, sweep.probes))
        for method, task, tuner in product(methods, sweep.train, tuners)
    ] + [(study.method, study.task, study.tuner) for study in p.studies.values()]
    released = [*product(sweep.methods, sweep.tasks)]
    released += [(study.method, study.task) for study in p.studies.values()]
    for method, task in released:
        if task in p.tasks and (needs := p.kind(task).needs_of_release):
            yield method, f"task {task} of kind {p.tasks[task].kind}", needs
    for method in sweep.methods if p.public_labels else ():
        yield method, "public_labels", "has_words"
    for method, _, tuner in dict.fromkeys(tuned):
        if tuner in p.tuners and p.tuners[tuner].reads_words:
            yield method, f"tuner {tuner}", "has_words"
    for method, eta in product(sweep.methods, sweep.etas):
        if (wanted := level(eta)) and wanted.measure != "linked":
            yield method, f"the level {eta}", "aligned"
    for method, attack in product(sweep.attacked, sweep.inversions if sweep.invert else ()):
        inversion = p.attacks.get(attack)
        reads_states = isinstance(inversion, Inversion) and inversion.reads_states
        yield method, f"attack {attack}", "by_word" if reads_states else "aligned"
    for method, attack in product(sweep.attacked, sweep.recognitions if sweep.recognize else ()):
        yield method, f"attack {attack}", "aligned"
    for method, attack in product(sweep.attacked, sweep.inferences if sweep.infer else ()):
        how = p.attacks.get(attack)
        if isinstance(how, Inference) and how.reads_words:
            yield method, f"attack {attack}", "has_words"


def _collisions(p: Params) -> Iterable[str]:
    """Cells are named by their factors joined by hyphens: two must not come out the same."""
    if "studies" in p.tasks:
        yield "tasks.studies: got the name of the studies' folder, expected another."
    for key, names in (("methods", p.methods), ("synthesizers", p.synthesizers)):
        for name in {CLEAN, LOCAL} & names.keys():
            yield f"{key}.{name}: got the name of a baseline, expected another."
    for name in p.synthesizers.keys() & p.methods.keys():
        yield f"synthesizers.{name}: got the name of a method, expected another."
    # The adapters of all tuned cells lie in one folder.
    given = Counter((c.kind if c.kind not in TUNED else "tuned", c.cell) for c in plan(p))
    for name in sorted({name for (_, name), count in given.items() if count > 1}):
        yield f"{name}: got two cells of this name, expected one. Rename a factor."
