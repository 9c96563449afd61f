# Tables and figures of the scale, and the copies of them at results/.


def files(stem, endings):
    return [f"{stem}{ending}" for ending in endings.split()]


def method_table(name):
    return files(name, ".csv _long.csv _contrasts.csv .html .md .tex .json")


# artefact → its files, in results/<scale>/ and as copies in results/
ARTEFACTS = {
    "table1": [
        *files("table1", ".csv _long.csv _contrasts.csv .html .md .tex"),
        *files("figure_table1", ".png .svg"),
        *files("table1", "_metrics.json .json"),
    ],
    "table4": method_table("table4"),
    "table5": method_table("table5"),
    "figure_loss": files("figure_loss", ".png .svg .csv .json"),
    "figure_schedules": files("figure_schedules", ".png .svg .csv _curves.csv .json"),
    "figure3": files("figure3", ".png .svg .pdf .csv _summary.csv .json"),
    "figure4": files("figure4", ".png .svg .pdf .csv _contrasts.csv .json"),
    "figure5": files("figure5", ".png .svg .pdf .csv _trend.csv .json"),
    "table9": files("table9", ".csv _long.csv .html .md .tex .json"),
    "recipes": [*(name for table in SCALE.tables.recipes for name in files(table, ".csv .html .md .tex")), "recipes.json"],
}

# what `snakemake --report` shows: file → caption (workflow/report/), category, and what it is called there
REPORTED = {
    "table1.html": ("table1", "Tables", "Table 1: linear probing"),
    "table4.html": ("method_table", "Tables", "Table 4: ablation on t"),
    "table5.html": ("method_table", "Tables", "Table 5: noise schedules"),
    **{f"{t}.html": ("recipes", "Tables", f"Table {t[5:]}: hyper-parameters") for t in SCALE.tables.recipes},
    "table9.html": ("table9", "Tables", "Table 9: licences"),
    "figure_table1.png": ("figure_table1", "Figures", "Figure: what training adds"),
    "figure_loss.png": ("figure_loss", "Figures", "Figure: losses"),
    "figure_schedules.png": ("figure_schedules", "Figures", "Figure: steadiness of the noise schedules"),
    "figure3.png": ("figure3", "Figures", "Figure 3: caption lengths"),
    "figure4.png": ("figure4", "Figures", "Figure 4: mask ratios"),
    "figure5.png": ("figure5", "Figures", "Figure 5: numbers of pairs"),
}


def folder_of(artefact):
    return f"{R}/recipes" if artefact == "recipes" else R


def made(artefact):
    """The files of an artefact, those that the report shows marked for it."""
    found = []
    for name in ARTEFACTS[artefact]:
        path = f"{folder_of(artefact)}/{name}"
        if name in REPORTED:
            caption, category, title = REPORTED[name]
            path = report(path, caption=f"../report/{caption}.rst", category=category, labels={"what": title})
        found.append(path)
    return found


def given(artefact):
    """What an artefact is made from, as its verb's option and the files behind it; none if from its configuration alone."""
    config = CONFIGS[artefact]
    if "expected" in config:
        return "--records", [f"{R}/probe/{encoder}/probe.json" for encoder in config["expected"]]
    if "runs" in config:
        return "--runs", [f"{R}/runs/{run}/run.json" for run in config["runs"]]
    if artefact == "figure3":
        sets = [corpus_index(corpus["key"]) for corpus in config["corpora"]]
        return "--indexes", sets + [texts_index(texts["key"]) for texts in config["texts"]]
    return "", []


for artefact in ARTEFACTS:

    rule:
        name:
            artefact
        input:
            config=config_file(artefact),
            given=given(artefact)[1],
            # beside each run's manifest; its own time means nothing
            logs=[ancient(f"{R}/runs/{run}/log.jsonl") for run in CONFIGS[artefact].get("runs", [])],
        output:
            made(artefact),
        log:
            f"{R}/logs/{artefact}.log",
        params:
            verb=CONFIGS[artefact]["verb"],
            option=given(artefact)[0],
            out=folder_of(artefact),
        shell:
            "mdc {params.verb} {input.config} {params.option} {input.given} --out {params.out} 2> {log}"

    rule:
        name:
            f"publish_{artefact}"
        localrule: True
        input:
            [f"{folder_of(artefact)}/{name}" for name in ARTEFACTS[artefact]],
        output:
            [f"results/{name}" for name in ARTEFACTS[artefact]],
        shell:
            "cp {input} results/"
