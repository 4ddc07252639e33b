"""The commands of `selfheal`, one file each, with the sentence that `selfheal --help` says of it."""

COMMANDS = {
    "run": "judge and heal what is staged (what the hook runs)",
    "demo": "see a heal in a throw-away repository, without a key or a network",
    "apply": "place a patch that was proved but not placed",
    "config": "print the configuration's JSON Schema for editors (--schema)",
    "help": "print this",
}
