# Prints the first page of a Makefile (`#: text`); with all=1 its targets (`##@ section`, `target: ## text`) and its
# variables (`about.NAME := VALUE text`). The experiments (`description: text` in their YAML files) are listed in the
# section Run. No line has more than 80 characters.
# colour=1: for a terminal.
function styled(text, code) { return colour ? "\033[" code "m" text "\033[0m" : text }
function entry(name, text, code,   words, many, w, line) { # a name, and beside it a text of several lines
  printf "  %s", styled(sprintf("%-18s", name), code)
  if (length(name) > 18) printf "\n%20s", ""
  many = split(text, words, " ")
  for (w = 1; w <= many; w++) {
    if (line != "" && length(line " " words[w]) > 58) { printf " %s\n%20s", line, ""; line = "" }
    line = line (line == "" ? "" : " ") words[w]
  }
  printf " %s\n", line
}
!all { if (sub(/^#: ?/, "")) print; next }
FNR == 1 && FILENAME ~ /conf\/experiment\// { name = FILENAME; sub(/.*\//, "", name); sub(/\.yaml$/, "", name); gsub(/_/, "-", name) }
FILENAME ~ /conf\/experiment\// && /^description: / {
  text = substr($0, 14); gsub(/^"|"$/, "", text)
  experiments[++count] = name "\t" text; next
}
/^about\./ {
  match($0, /:= *("[^"]*"|[^ ]+) */); value = substr($0, RSTART + 3, RLENGTH - 3); sub(/ *$/, "", value)
  variables[++known] = substr($1, 7) "=" value "\t" substr($0, RSTART + RLENGTH); next
}
/^##@/ { section = substr($0, 5); sections[++many] = section; next }
/^[a-z-]+:.*## / { target = $0; sub(/:.*/, "", target); text = $0; sub(/.*## /, "", text); lines[many] = lines[many] target "\t" text "\n" }
END {
  if (!all) exit
  for (s = 1; s <= many; s++) {
    printf "\n%s\n", styled(sections[s], 1)
    if (sections[s] ~ /^Run/) for (e = 1; e <= count; e++) { split(experiments[e], pair, "\t"); entry(pair[1], pair[2], 36) }
    rows = split(lines[s], row, "\n")
    for (r = 1; r < rows; r++) { split(row[r], pair, "\t"); entry(pair[1], pair[2], 36) }
  }
  printf "\n%s, for example: make weak-scaling NODES=4 MODELS=resnet50\n", styled("Variables", 1)
  for (v = 1; v <= known; v++) { split(variables[v], pair, "\t"); entry(pair[1], pair[2], 0) }
}
