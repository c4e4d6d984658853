# Prints the targets of a Makefile (`##@ section`, `target: ## text`) and its variables (`about.NAME := VALUE text`). The
# experiments (`description: text` in their YAML files) are listed in the section Run.
# colour=1: for a terminal.
function styled(text, code) { return colour ? "\033[" code "m" text "\033[0m" : text }
function entry(name, text) { printf "  %s %s\n", styled(sprintf("%-18s", name), 36), text }
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
    printf "\n%s\n", styled(sections[s], 1)
    if (sections[s] ~ /^Run/) for (e = 1; e <= count; e++) { split(experiments[e], pair, "\t"); entry(pair[1], pair[2]) }
    rows = split(lines[s], row, "\n")
    for (r = 1; r < rows; r++) { split(row[r], pair, "\t"); entry(pair[1], pair[2]) }
  }
  printf "\n%s, for example: make weak-scaling NODES=4 MODELS=resnet50\n%s", styled("Variables", 1), variables
}
