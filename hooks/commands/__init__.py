"""The commands of `selfheal`, one file each, with the sentence that `selfheal --help` says of it."""

COMMANDS = {
    "run": "judge and heal what is staged (what the hook runs)",
    "demo": "see a heal in a throw-away repository, without a key or a network",
    "undo": "put back what a heal changed, in index and working tree",
    "apply": "place a patch that was proved but not placed",
    "log": "the heals so far",
    "install": "git's own pre-commit hook, which runs before a framework's stash",
    "uninstall": "take that hook away",
    "trailer": "the hook selfheal-trailer: Healed-by: in the message of a healed commit",
    "config": "print the configuration's JSON Schema for editors (--schema)",
    "help": "print this",
}
