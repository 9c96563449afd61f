# Tables and figures of the scale, each in a folder of its own, and their copies at results/.

NAMED = {name: ARTEFACTS[name] for name in SCALE.tables.named()}


def caption(name):
    """What the report says below an artefact, as a file."""
    path = Path(R, "configs/captions", f"{name}.rst").resolve()
    made_from = ", ".join(job.partition("/")[2] for job in JOBS[name].inputs)
    text = ARTEFACTS[name].caption.format(scale=PLAN.params.scale)
    write_text_if_changed(path, f"{text} Made from {len(JOBS[name].inputs)} records: {made_from}.\n" if made_from else f"{text}\n")
    return str(path)


def made(name):
    """The files of an artefact, those that the report shows marked for it."""
    found = [f"{R}/{name}/{name}.json"]
    for file in ARTEFACTS[name].files:
        path = f"{R}/{name}/{file}"
        if file in ARTEFACTS[name].shown:
            labels = {"what": ARTEFACTS[name].shown[file]}
            path = report(path, caption=caption(name), category=ARTEFACTS[name].category, labels=labels)
        found.append(path)
    return found


for name in NAMED:

    rule:
        name:
            f"make_{name}"
        input:
            config=f"{R}/configs/{name}.json",
            given=given(name),
            # a log lies beside its run's manifest, so its own time is ignored
            logs=[ancient(f"{R}/{job}/log.jsonl") for job in JOBS[name].inputs if job.startswith("runs/")],
        output:
            made(name),
        log:
            f"{R}/logs/{name}.log",
        params:
            # left from when the scale did not name it
            note=f"{R}/{name}/not_named.txt",
        shell:
            "rm -f {params.note}; mdc make {input.config} 2> {log}"

    rule:
        name:
            name
        localrule: True
        input:
            [f"{R}/{name}/{file}" for file in (f"{name}.json", *ARTEFACTS[name].files)],
        output:
            [f"results/{file}" for file in (f"{name}.json", *ARTEFACTS[name].files)],
        shell:
            "cp {input} results/"


# The page that a reader opens first. It shows run times too, so it is made again whenever one of these is.
rule index:
    localrule: True
    input:
        [f"{R}/{name}/{name}.json" for name in NAMED],
    output:
        "results/index.html",
    params:
        scale=PLAN.params.scale,
        names=list(NAMED),
    shell:
        "mdc index {params.names} --scale {params.scale} > /dev/null"


# DVC has a stage for every table and figure. For one that the scale does not name, the stage keeps a note that says so.
for name in ARTEFACTS.keys() - NAMED.keys():

    rule:
        name:
            name
        localrule: True
        output:
            f"{R}/{name}/not_named.txt",
        params:
            text=f"Scale {PLAN.params.scale} names no {name} in params.yaml (scales.{PLAN.params.scale}.tables).",
        shell:
            "echo '{params.text}' > {output}"


def of_another_scale(name):
    """The copies of an artefact at results/ if they are another scale's."""
    record = Path("results", f"{name}.json")
    if not record.is_file() or f'"scale": "{PLAN.params.scale}"' in record.read_text(encoding="utf-8"):
        return []
    return [record, *(Path("results", file) for file in ARTEFACTS[name].files)]


onstart:
    # otherwise copies of another scale would stay there as if they were this scale's
    for name in ARTEFACTS.keys() - NAMED.keys():
        for path in of_another_scale(name):
            path.unlink(missing_ok=True)
