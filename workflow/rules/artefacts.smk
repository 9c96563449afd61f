# Tables and figures of the scale, each in its own folder, and their copies at results/.

NAMED = SCALE.tables.artefacts
DECLARED = PLAN.params.declared
INDEX = f"mdc index --scale {PLAN.params.scale} > /dev/null"


def caption(name):
    """The file with the report's caption of an artefact."""
    path = Path(R, "configs/captions", f"{name}.rst").resolve()
    made_from = ", ".join(job.partition("/")[2] for job in JOBS[name].inputs)
    text = NAMED[name].caption.format(scale=PLAN.params.scale)
    write_text_if_changed(
        path, f"{text} Made from {len(JOBS[name].inputs)} records: {made_from}.\n" if made_from else f"{text}\n"
    )
    return str(path)


def copies(name):
    """The files of an artefact at results/."""
    return [f"results/{file}" for file in (f"{name}.json", *DECLARED[name].files)]


def artefact_files(name):
    """The files of an artefact; those that the report shows are marked by report()."""
    files = [f"{R}/{name}/{name}.json"]
    for file in NAMED[name].files:
        path = f"{R}/{name}/{file}"
        if file in NAMED[name].shown:
            labels = {"what": NAMED[name].shown[file]}
            path = report(path, caption=caption(name), category=NAMED[name].category, labels=labels)
        files.append(path)
    return files


for name in NAMED:

    rule:
        name:
            f"make_{name}"
        input:
            config=config_of(JOBS[name]),
            manifests=input_manifests(JOBS[name]),
            files=others_files(JOBS[name]),
        output:
            artefact_files(name),
        log:
            f"{R}/logs/{name}.log",
        shell:
            "mdc make {input.config} 2> {log}"

    rule:
        name:
            name
        input:
            [f"{R}/{name}/{file}" for file in (f"{name}.json", *NAMED[name].files)],
        output:
            copies(name),
        localrule: True
        run:
            try:
                publish(Path(input[0]))
            except UserError as error:
                refuse(str(error))


# The page with all tables and figures. It also shows run times, so it is rebuilt whenever one of these is.
rule index:
    input:
        [f"results/{name}.json" for name in NAMED],
    output:
        "results/index.html",
        f"{R}/claims.csv",
    localrule: True
    params:
        call=INDEX,
    shell:
        "{params.call}"


# A table or figure that the scale does not name cannot be made, even if results/ holds another scale's copy.
def not_named(name):
    return lambda wildcards: refuse(PLAN.not_named(name))


for name in DECLARED.keys() - NAMED.keys():

    rule:
        name:
            name
        input:
            not_named(name),
        output:
            copies(name),
        localrule: True
        shell:
            "false"


def refresh_index():
    """Rebuild the page, and claims.csv, if a record that they show is newer, as after a call for one table."""
    page = Path("results/index.html")
    built = page.stat().st_mtime if page.is_file() else 0
    if any(copy.stat().st_mtime > built for copy in Path("results").glob("*.json")):
        shell(INDEX)


onsuccess:
    refresh_index()
