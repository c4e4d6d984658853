# Prints the targets of a Makefile (`##@ section`, `target: ## text`) and its variables (`about.NAME := VALUE text`). The
# experiments (`description: text` in their YAML files) are listed in the section Run.
function entry(name, text) { printf "  \033[36m%-18s\033[0m %s\n", name, text }
FNR == 1 && FILENAME ~ /conf\/experiment\// { name = FILENAME; sub(/.*\//, "", name); sub(/\.yaml$/, "", name); gsub(/_/, "-", name) }
FILENAME ~ /conf\/experiment\// && /^description: / {
  text = substr($0, 14); gsub(/^"|"$/, "", text)
  experiments[++count] = name "\t" text; next
}
/^about\./ { text = $0; sub(/^[^=]*= *[^ ]+ */, "", text); variables = variables sprintf("  %-22s %s\n", substr($1, 7) "=" $3, text); next }
/^##@/ { section = substr($0, 5); sections[++many] = section; next }
/^[a-z-]+:.*## / { target = $0; sub(/:.*/, "", target); text = $0; sub(/.*## /, "", text); lines[many] = lines[many] target "\t" text "\n" }
END {
  for (s = 1; s <= many; s++) {
    printf "\n\033[1m%s\033[0m\n", sections[s]
    if (sections[s] ~ /^Run/) for (e = 1; e <= count; e++) { split(experiments[e], pair, "\t"); entry(pair[1], pair[2]) }
    rows = split(lines[s], row, "\n")
    for (r = 1; r < rows; r++) { split(row[r], pair, "\t"); entry(pair[1], pair[2]) }
  }
  printf "\n\033[1mVariables\033[0m, for example: make weak-scaling NODES=4 MODELS=resnet50\n%s", variables
}
