"""selfheal's rooms, from the top down: a room imports only from rooms below it.

The flow
    heal            the order of events, from a staged change to an outcome
    repair          the order of events after the first failure
    report          an outcome as text or JSON
    healing         what healing starts from and what it ends in
    attribution     whose a failure is: the change's own, flaky, or HEAD's already
    case            failures and the staged change, made into the case that engines are told of
    verify          the ladder that a patch climbs

Proposing
    engines         what proposes patches: `search` (offline) and `llm`
    provider        the client of OpenAI-compatible servers (answer: what they say; complaint: how they word an error)
    prompt          what a model is told; redact masks secrets in it
    edits           the reply grammar and its parser (anchoring: where an edit belongs in a file)
    policy          what a patch may touch, and how it may not cheat
    diagnose        what a failure is not: an environment that lacks something, a file never added
    localize        failures and change -> suspects, in order

Running
    lab             the selected tests, each time on a fresh checkout, with or without a patch
    suite           one run of pytest, and what may be believed of it
    interpreter     the project's Python
    selection       staged paths -> tests, with reasons (import_graph, imports, pytest_settings)
    sandbox         where tests run, one file a backend
    probe           what runs inside the project's interpreter; imports nothing of ours

The repository
    placing         a proved patch into index and working tree: the only code that writes there
    frameworks      where pre-commit and prek keep unstaged changes meanwhile
    undo            takes a placed patch back
    recovery        the record of every heal, written before the first write
    record          patches that were proved but not placed
    ancestry        the processes above: the git commit that a hook serves
    workspace       a staged tree on disk, outside the repository
    history         what HEAD and the log say, by GitPython
    repo            what is staged, under the index that git gave the hook
    plumbing        running git

Values
    config, trust   the configuration; which keys a repository may not set
    failure         a test's failure (traceback: read from text)
    patch, source   files before and after; text that goes back to the same bytes (attempt: what became of a patch)
    alignment       the lines that two texts have in common
    errors          what selfheal cannot do, worded for the person who committed
"""
