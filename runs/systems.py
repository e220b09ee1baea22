"""The systems of a comparison, in one table: how each is trained, which policies it is run with, and which pictures it appears in.

A policy may stand for several. `{1,3,5}` means each of these. `<0.1,0.2>` means the one of these that does best on the development sets,
where all of them are tried; test sets meet only the chosen one. `random pe:…` is the random baseline of that policy: verdicts drawn at
random, as often in favour as those of the policy were on the same sentences.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from bethink.policy import parse

FIXED = "wait-k:k={1,3,5,7,9,13,17}"  # far enough that slow policies have a curve to be compared with
SCHEDULES = "wait-k:k={1,3,5,7},rate=1.2"  # that read faster than they write: what any cleverer policy must beat
FASTER = "wait-k:k={1,3,5},rate={1.5,2}"  # nearly as fast as pe reads that hardly ever accepts
ADAPTIVE = ("adaptive:rho_1={0.2,0.4,0.6,0.8,1},rho_k=0,k_max=10", "adaptive:rho_1=1,rho_k={0.2,0.4,0.6,0.8},k_max=10")
PE = "pe:k={1,3,5,7,9},rho=<0.05,0.1,0.2,0.3>,r=2"
SHORT = "pe:k={1,3,5,7,9},rho=<0.1,0.2>,r=2"  # where only the difference that a part makes is asked for
PUBLISHED = ("pe:k={1,3,5,7,9},rho=0.24,r=2", "pe-flip:k={1,3,5,7,9},tau=0.12")  # the paper's own settings
FLIP = "pe-flip:k={1,3,5,7,9},tau=<0.02,0.05>"
WEIGH = "weigh:k={1,2,4,6},r=4,rate=1.2,rho=0.9"  # by the candidate's probability
WEIGH_JUDGED = ("weigh:k=1,r=4,rate=1.2,rho=0.98", "weigh:k=2,r=6,rate=1.2,rho=0.98", "weigh:k=3,r=8,rate=1.2,rho=0.98")
WEIGH_JUDGED += ("weigh:k={5,7},r=12,rate=1.2,rho=0.98",)  # by the judge
WEIGH_LIVE = (  # by word, from fast to careful
    "weigh:k=1,r=8,rate=1.0,rho=0.9,unit=word",
    "weigh:k=1,r=8,rate=1.0,rho=0.98,care={0.5,0.8},unit=word",
    "weigh:k=1,r=8,rate=1.0,rho=0.99,care={0.95,0.98},unit=word",
)
UNJUDGED = tuple(
    f"unjudged weigh:k=1,r=8,rate=1.0,{bar},unit=word" for bar in ("rho={0.5,0.7,0.9}", "rho=0.9,care={0.4,0.6,0.8}")
)
WAIT_MODELS = tuple(f"wait-{k}" for k in (1, 3, 5, 7, 9))


@dataclass(frozen=True)
class System:
    name: str
    settings: str  # changes to the recipe
    policies: tuple[str, ...]
    per_lag: tuple[str, ...] = ()  # the wait-k systems it consists of, one for each lag; nothing else is trained
    judges: str = ""  # the system that it is, with a judge added; it has nothing else to train
    tested: tuple[str, ...] | None = None  # those of its policies that test sets meet, if not all
    curve: str = ""  # whose points its points are, if not its own

    @property
    def parts(self) -> tuple[str, ...]:
        """The systems whose models it needs."""
        return self.per_lag or (self.name,)

    @property
    def label(self) -> str:
        return self.curve or self.name


LONGER = "train.updates=3000 train.validate=3000 train.warmup=200"  # not on equal terms with the others, and named so
SYSTEMS = (
    # the paper's systems
    System("offline", "system=offline", ("offline",)),
    System("offline-bidirectional", f"system=offline-bidirectional {LONGER}", ("offline",)),
    *(System(n, f"system=wait-k paths.k={n[5:]}", (f"wait-k:k={n[5:]}",), curve="wait-k") for n in WAIT_MODELS),
    System(
        "multi-path", "system=multi-path", (FIXED, SCHEDULES, *ADAPTIVE, WEIGH, "offline")
    ),  # also: a plain continuation
    System("adaptive-wait-k", "", ADAPTIVE, per_lag=WAIT_MODELS),
    System(
        "ped",
        "system=ped",
        (FIXED, PE, FLIP, *PUBLISHED, f"random {PE}", SCHEDULES, FASTER, *ADAPTIVE, "offline"),
        tested=(FIXED, PE, f"random {PE}", FLIP, SCHEDULES, FASTER, "offline"),
    ),
    # with another seed, as multi-path-again: how far two trainings of one system differ
    System("ped-again", "system=ped train.seed=5", (FIXED, PE, f"random {PE}", FASTER, "offline")),
    System("multi-path-again", "system=multi-path train.seed=5", (FIXED, SCHEDULES, "offline")),
    # the untranslated capsules must tell the words to come, so that nothing is gained by keeping translated words in them
    System("ped-coming", "system=ped losses.untranslated=coming", (FIXED, PE, f"random {PE}", "offline")),
    System("ped-longer", f"system=ped {LONGER}", (FIXED, PE, "offline"), tested=(FIXED, PE)),
    # what PED is made of, one part taken away; without post-evaluation it is the fixed policy of `ped` above
    System("ped-without-disturbed", "system=ped-multi-path", (FIXED, SHORT, f"random {SHORT}")),
    System("ped-without-segment", "system=ped losses.segment=0", (FIXED, SHORT), tested=()),
    System("ped-without-token", "system=ped losses.token=0", (FIXED, SHORT), tested=()),
    System("ped-without-both", "system=ped losses.segment=0 losses.token=0", (FIXED, SHORT), tested=()),
    System("ped-published", "system=ped losses.token=1", (FIXED, SHORT, *PUBLISHED), tested=()),  # the released weights
    System(  # all of the released settings: routing scale, way in, weights of the losses, sampling of paths, one learning rate
        "ped-released",
        "system=ped model.capsules.scale=0.0625 model.capsules.entry=joint losses.token=1 paths.sampling=released train.new_rate=0",
        (FIXED, SHORT, FLIP, *PUBLISHED, "offline"),
        tested=(FIXED, SHORT, FLIP),
    ),
    System("disturbed", "system=disturbed", (FIXED,)),  # disturbed paths without capsules
    # ours: the degree learns from word alignments (data.align=true), and a judge looks at each word
    System(
        "aligned",
        "system=aligned",
        (FIXED, WEIGH, f"random {WEIGH}", SCHEDULES, *ADAPTIVE, PE, "offline"),
        tested=(FIXED, SCHEDULES, "offline"),
    ),
    System(
        "judged", "", (*WEIGH_JUDGED, *(f"random {p}" for p in WEIGH_JUDGED)), judges="aligned", tested=WEIGH_JUDGED
    ),
    # judges who are shown a degree that no alignment taught, or none at all
    System("judged-ped", "", WEIGH_JUDGED, judges="ped-longer", tested=()),
    System("judged-multi-path", "", WEIGH_JUDGED, judges="multi-path"),
    # the judge on equal terms: the model as it is given to users, and with another judge; runs/judge.sh makes the folders
    System(
        "live",
        "",
        (
            *("offline", "wait-k:k={1,2,3,5,7},unit=word", "wait-k:k={1,3,5},rate={1.2,1.5,2},unit=word"),
            *("adaptive:rho_1={0.6,0.8,1},rho_k=0,k_max=10,unit=word", *UNJUDGED, *WEIGH_LIVE),
            *(f"random {policy}" for policy in WEIGH_LIVE),
        ),
    ),
    System("live-again", "", WEIGH_LIVE),
    # the model as it was given to users when words did not count yet; its folder is made by `bethink export`
    System("bundled", "", ("offline", FIXED, SCHEDULES, *ADAPTIVE, *WEIGH_JUDGED)),
)

# picture: the curves in it, each a system and a kind of policy
PICTURES = {
    "systems": (
        ("offline", "offline"),
        ("wait-k", "wait-k"),
        ("multi-path", "wait-k"),
        ("adaptive-wait-k", "adaptive"),
        ("multi-path", "adaptive"),
        ("ped", "pe"),
        ("ped", "pe-flip"),
        ("judged", "weigh"),
    ),
    "ours": (
        ("aligned", "offline"),
        ("multi-path", "wait-k"),
        ("multi-path", "adaptive"),
        ("aligned", "wait-k"),
        ("aligned", "weigh"),
        ("judged", "weigh"),
        ("judged", "random-weigh"),
        ("judged-ped", "weigh"),
        ("judged-multi-path", "weigh"),
    ),
    "judge": (
        ("live", "offline"),
        ("live", "wait-k"),
        ("live", "wait-k, rate=1.5"),
        ("live", "adaptive"),
        ("live", "weigh"),
        ("live", "weigh-by-probability"),
        ("live", "random-weigh"),
        ("live-again", "weigh"),
    ),
    "ablation": (
        ("ped", "pe"),
        ("ped", "wait-k"),
        ("ped", "random"),
        ("ped-longer", "pe"),
        ("ped-coming", "pe"),
        ("ped-coming", "random"),
        ("ped-without-disturbed", "pe"),
        ("ped-without-segment", "pe"),
        ("ped-without-token", "pe"),
        ("ped-without-both", "pe"),
        ("ped-published", "pe"),
        ("ped-released", "pe"),
        ("disturbed", "wait-k"),
    ),
}

_ANY, _BEST = re.compile(r"\{([^}]*)\}"), re.compile(r"<([^>]*)>")


def each(pattern: str) -> list[str]:
    """All policies that a pattern without choices stands for, as results name them."""
    return [str(parse(text)) for text in _filled(pattern, _ANY)]


def choices(pattern: str) -> list[str]:
    """The patterns of which the development sets choose one; a pattern without choices is the only one of itself."""
    return _filled(pattern, _BEST)


def _filled(pattern: str, blank: re.Pattern[str]) -> list[str]:
    pieces = blank.split(pattern)  # text, options, text, options, …, text
    options = [piece.split(",") if n % 2 else [piece] for n, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in itertools.product(*options)]
