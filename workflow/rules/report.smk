# Tables and figures of the scale, and the copies of them at results/.

TABLE1_FILES = [
    "table1.csv",
    "table1_long.csv",
    "table1_contrasts.csv",
    "table1.html",
    "table1.md",
    "table1.tex",
    "figure_table1.png",
    "figure_table1.svg",
    "table1_metrics.json",
    "table1.json",
]
METHOD_TABLES = [table for table in SCALE.tables.probing() if table != "table1"]
METHOD_TABLE_FILES = {
    table: [
        *(f"{table}{ending}" for ending in (".csv", "_long.csv", "_contrasts.csv", ".html", ".md", ".tex", ".json"))
    ]
    for table in METHOD_TABLES
}
FIGURE3_FILES = [
    "figure3.png",
    "figure3.svg",
    "figure3.pdf",
    "figure3.csv",
    "figure3_summary.csv",
    "figure3.json",
]
TABLE9_FILES = ["table9.csv", "table9_long.csv", "table9.html", "table9.md", "table9.tex", "table9.json"]
RECIPE_FILES = [f"{table}.{ending}" for table in SCALE.tables.recipes for ending in ("csv", "html", "md", "tex")]
RECIPE_FILES += ["recipes.json"]
LOSS_FILES = ["figure_loss.png", "figure_loss.svg", "figure_loss.csv", "figure_loss.json"]

# what `snakemake --report` shows: file → caption (workflow/report/), category, and what it is called there
REPORTED = {
    "table1.html": ("table1", "Tables", "Table 1: linear probing"),
    **{f"{t}.html": ("recipes", "Tables", f"Table {t[5:]}: hyper-parameters") for t in SCALE.tables.recipes},
    **{f"{t}.html": ("method_table", "Tables", f"Table {t[5:]}: methods") for t in METHOD_TABLES},
    "table9.html": ("table9", "Tables", "Table 9: licences"),
    "figure_table1.png": ("figure_table1", "Figures", "Figure: what training adds"),
    "figure_loss.png": ("figure_loss", "Figures", "Figure: losses"),
    "figure3.png": ("figure3", "Figures", "Figure 3: caption lengths"),
}


def made(names, folder=R):
    """The files of a table or figure, those that the report shows marked for it."""
    found = []
    for name in names:
        path = f"{folder}/{name}"
        if name in REPORTED:
            caption, category, title = REPORTED[name]
            path = report(path, caption=f"../report/{caption}.rst", category=category, labels={"what": title})
        found.append(path)
    return found


def records_of(table):
    """The probe records that a table is made from."""
    return [f"{R}/probe/{encoder}/probe.json" for encoder in CONFIGS[table]["expected"]]


rule table1:
    input:
        config=config_file("table1"),
        records=records_of("table1"),
    output:
        made(TABLE1_FILES),
    log:
        f"{R}/logs/table1.log",
    params:
        out=R,
    shell:
        "mdc table1 {input.config} --records {input.records} --out {params.out} 2> {log}"


for method_table in METHOD_TABLES:

    rule:
        name:
            method_table
        input:
            config=config_file(method_table),
            records=records_of(method_table),
        output:
            made(METHOD_TABLE_FILES[method_table]),
        log:
            f"{R}/logs/{method_table}.log",
        params:
            out=R,
        shell:
            "mdc method-table {input.config} --records {input.records} --out {params.out} 2> {log}"

    rule:
        name:
            f"publish_{method_table}"
        localrule: True
        input:
            [f"{R}/{name}" for name in METHOD_TABLE_FILES[method_table]],
        output:
            expand("results/{file}", file=METHOD_TABLE_FILES[method_table]),
        shell:
            "cp {input} results/"


rule loss_curves:
    input:
        config=config_file("figure_loss"),
        runs=[run_manifest(run) for run in RUNS],
        logs=[ancient(f"{R}/runs/{run.id}/log.jsonl") for run in RUNS],
    output:
        made(LOSS_FILES),
    log:
        f"{R}/logs/figure_loss.log",
    params:
        out=R,
    shell:
        "mdc loss-curves {input.config} --runs {input.runs} --out {params.out} 2> {log}"


rule caption_lengths:
    input:
        config=config_file("figure3"),
        indexes=[corpus_index(name) for name in SCALE.tables.figure3.corpora]
        + [texts_index(name) for name in SCALE.tables.figure3.texts],
    output:
        made(FIGURE3_FILES),
    log:
        f"{R}/logs/figure3.log",
    params:
        out=R,
    shell:
        "mdc caption-lengths {input.config} --indexes {input.indexes} --out {params.out} 2> {log}"


rule table9:
    input:
        config=config_file("table9"),
    output:
        made(TABLE9_FILES),
    log:
        f"{R}/logs/table9.log",
    params:
        out=R,
    shell:
        "mdc table9 {input.config} --out {params.out} 2> {log}"


rule recipes:
    input:
        config=config_file("recipes"),
    output:
        made(RECIPE_FILES, f"{R}/recipes"),
    log:
        f"{R}/logs/recipes.log",
    params:
        out=f"{R}/recipes",
    shell:
        "mdc recipes {input.config} --out {params.out} 2> {log}"


rule publish_table1:
    input:
        [f"{R}/{name}" for name in TABLE1_FILES],
    output:
        expand("results/{file}", file=TABLE1_FILES),
    shell:
        "cp {input} results/"


rule publish_loss_curves:
    input:
        [f"{R}/{name}" for name in LOSS_FILES],
    output:
        expand("results/{file}", file=LOSS_FILES),
    shell:
        "cp {input} results/"


rule publish_figure3:
    input:
        [f"{R}/{name}" for name in FIGURE3_FILES],
    output:
        expand("results/{file}", file=FIGURE3_FILES),
    shell:
        "cp {input} results/"


rule publish_table9:
    input:
        [f"{R}/{name}" for name in TABLE9_FILES],
    output:
        expand("results/{file}", file=TABLE9_FILES),
    shell:
        "cp {input} results/"


rule publish_recipes:
    input:
        [f"{R}/recipes/{name}" for name in RECIPE_FILES],
    output:
        expand("results/{file}", file=RECIPE_FILES),
    shell:
        "cp {input} results/"


localrules:
    publish_recipes,
    publish_table1,
    publish_loss_curves,
    publish_figure3,
    publish_table9,
