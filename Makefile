# Every target is one line that calls Python. The experiments are defined in conf/experiment/.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What a user may set, for example: make weak-scaling NODES=4 MODELS=resnet50,vgg16
about.NODES         := N           the largest number of nodes: measures N and the powers of two below it
about.MODELS        := a,b         files of conf/model
about.DEVICE        := cpu|gpu     gpu: one rank per GPU, in a separate environment
about.DATASET       := NAME        a file of conf/dataset
about.DATA_DIR      := FOLDER      the folder of the dataset
about.MEASURE       := NAME        quick: minutes; report: for a paper, hours
about.REPEATS       := N           launches of each point
about.LAUNCHER      := NAME        a file of conf/launcher
about.HOSTS         := a,b,c       LAUNCHER=ssh: the hosts
about.CONTAINER     := NAME        a file of conf/container: ranks run in a container
about.IMAGE         := NAME        image for CONTAINER=, if not the one built by make image or make sif
about.SYSTEM        := NAME        a file of conf/system: describes the nodes and their batch system
about.SPLIT         := 1           one batch job per point
about.ONLY          := A,B         these points of the experiment, by their names as shown with DRY_RUN=1; evaluate: E1,E3
about.FORCE         := 1           repeat measurements that are complete: adds, replaces nothing; reference: replace
about.ALL           := 1           help: list all targets and variables; audit, claims: those of the reports in full; test: all
about.FORMAT        := NAME        summary: text, json, or for other tools: extrap, mllog, openmetrics, perflog
about.ALL_ROUNDS    := 1           summary: also the rounds that other processes disturbed
about.DRY_RUN       := 1           print the plan and the commands, start nothing
about.RESULTS       := FOLDER      where records are written, and where the analysis reads them (default: results)
about.ARGS          := "key=value" any other key of conf/
about.PYTHON        := PROGRAM     the Python that creates the environment
about.WRITE         := NAME        tune: write the fastest settings into conf/system/NAME.yaml
about.REPORT        := 001         reproduce: 000 to 004
about.URL           := URL         data-fetch: fetch this instead of the known URL
about.CHECKSUM      := SUM         data-fetch: md5:..., sha1:... or sha256:... of the file at URL=
about.FILE          := FILE        table, audit, explain, predict: a table; bundle-check, evaluate: an archive
about.COLUMNS       := "HEADER=NAME,..." table, audit, explain, predict, compare: what headers of FILE mean (docs/tables.md)
about.EXPERIMENT    := NAME        summary, diagnose, explain, predict, proposal, history, reference: the records of this experiment
about.ATLAS         := 1           audit: the published curves of docs/atlas.md
about.STRICT        := 1           audit, history: a serious finding in your records or FILE, or a worse point, is an error
about.JUNIT         := FILE        test, audit, history, check-reference: write the results as JUnit, too, for a CI system
about.TO            := N,N         predict: numbers of ranks (default: 16,64,256); proposal: of nodes
about.UP_TO         := N           predict: use points of at most N ranks
about.GLOBAL_BATCH  := N           keep that global batch (strong scaling); predict: predict with it
about.COMMAND       := "..."       scaling: your own command, with placeholders as {ranks} (docs/program.md)
about.RATE          := "..."       scaling: the line with the rate that it prints, as "samples/s: {rate}" (docs/program.md)
about.TIME          := "..."       scaling: or the line with a time, as "step time {time} ms"
about.PROGRAM       := FILE        scaling: a file that holds the command and how its output is read; WRITE=FILE writes a first one
about.EXCHANGE      := NAME        predict FILE=: allreduce or server, if it is known how gradients were exchanged
about.IMAGES        := N           predict, proposal: images of the job whose wall time is predicted
about.EPOCHS        := N           predict, proposal: epochs of that job
about.RUNS          := N           proposal: number of runs to apply for
about.THRESHOLD     := 0.75        proposal: the lowest efficiency that the centre accepts
about.PRICE         := P           predict: the price of a node hour
about.A             := FOLDER      compare: the first of two folders of records, or tables
about.B             := FOLDER      compare: the second
about.WITHIN        := 0.05        history, references: a smaller relative difference counts as the same
about.SINCE         := DAY         history, references: leave out older launches, as 2026-11-01
about.NAME          := NAME        the reference references/NAME.json
about.SCRUB         := 1           bundle: without host and user names
about.SIGN_KEY      := KEY         an SSH key that signs the archive of make bundle; bundle-check: its public part
about.VARIANT       := NAME        image: cpu, mvapich2 or cuda
about.BASE          := IMAGE       image: the base image
about.TOOLKIT       := IMAGE       cuda image: the image whose CUDA toolkit compiles it
about.BUILD_OPTIONS := "..."       more options for `docker build`
about.SIF_OPTIONS   := "..."       more options for `singularity build`
about.FROM_OCI      := 1           sif: from the image that make image built
about.SOURCE        := FOLDER      test-horovod: a copy of Horovod's repository, at the version that is installed
about.UNIT          := 1           test: only the fast tests
about.PYTEST_ARGS   := "..."       test: more options for pytest

VARIABLES := $(patsubst about.%,%,$(filter about.%,$(.VARIABLES)))
export GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
# A variable that is not in the list is a typing error: it would silently have no effect.
UNKNOWN := $(filter-out $(VARIABLES),$(GIVEN))
ifneq ($(UNKNOWN),)
upper = $(shell printf %s '$(subst ','\'',$(1))' | tr 'a-z-' 'A-Z_')
LIKE := $(filter $(addsuffix %,$(subst %,,$(call upper,$(UNKNOWN)))),$(VARIABLES))
$(error $(UNKNOWN): no such variable; $(if $(LIKE),did you mean $(LIKE)?,make help ALL=1 lists them))
endif

# A value is text: Make does not expand a $ in it, and commands read it from the environment. A recipe that pasted it
# with $(...) would let the shell run what a file name says.
define text
override $(1) := $$(value $(1))
export $(1)
endef
$(foreach name,$(VARIABLES),$(if $(filter-out undefined,$(origin $(name))),$(eval $(call text,$(name)))))

# Settings of other programs: of Python those of a module system, and all that change how it runs (without bytecode each
# rank needs 11 instead of 4 s to import TensorFlow), but for a user's program its packages; pip.conf with user = true;
# an encoding in which not every name can be written.
KEPT := PYTHON PYTHONNOUSERSITE PYTHONPYCACHEPREFIX PYTHONUNBUFFERED $(if $(filter scaling,$(MAKECMDGOALS)),PYTHONPATH)
unexport $(filter-out $(KEPT),$(filter PYTHON%,$(.VARIABLES)))
export PIP_USER := 0
export PYTHONUTF8 := 1

# FORCE=0 means no.
on = $(filter-out 0 no false,$($(1)))

DEVICE ?= cpu
ifneq ($(DEVICE),cpu)
ifneq ($(DEVICE),gpu)
$(error DEVICE=$(DEVICE): allowed are cpu gpu)
endif
endif
PACKAGES := $(if $(filter gpu,$(DEVICE)),cuda,cpu)
# For a dry run, and if ranks run in a container, this machine needs neither TensorFlow nor Horovod, and no compiler.
# A launcher that starts ranks over ssh needs Horovod's, to start them in containers of other hosts.
OVER_SSH := $(filter over_ssh,$(file <conf/launcher/$(or $(LAUNCHER),local).yaml))
IN_CONTAINER := $(and $(filter-out none,$(CONTAINER)),$(if $(OVER_SSH),,1))
SET := $(if $(or $(call on,DRY_RUN),$(IN_CONTAINER)),launch,$(PACKAGES))
VENV := .venv$(if $(filter gpu,$(DEVICE)),-gpu)
KIT := $(VENV)/bin/python

SETUP := requirements/setup.sh $(VENV)
ANY_PYTHON = "$${PYTHON:-$$(command -v $(VENV)/bin/python || echo python3)}"
EXPERIMENT_FILES := $(wildcard conf/experiment/*.yaml)
EXPERIMENTS := $(filter-out diagnose tune timeline,$(subst _,-,$(notdir $(EXPERIMENT_FILES:.yaml=))))

# What these run, with which variables, is in train/make.py. `diagnose EXPERIMENT=NAME` reads records, and measures nothing.
MEASURING := $(EXPERIMENTS) tune timeline reproduce doctor status wandb-sync data-fetch data-check input-bench
ANALYSING := summary figures tables table audit claims explain predict compare history reference check-reference report bundle bundle-check proposal release
$(filter-out scaling,$(MEASURING)): setup
$(ANALYSING): setup-analysis
diagnose: $(if $(EXPERIMENT),setup-analysis,setup)
evaluate: $(if $(ONLY),setup,setup-analysis)
.PHONY: $(MEASURING) $(ANALYSING) diagnose evaluate
$(MEASURING) $(ANALYSING) diagnose evaluate:
	@MAKE_PID=$$PPID exec $(KIT) -m train.make $@

##@ Set up

#: Measure how TensorFlow training scales with Horovod (README.md).
#:
#: make doctor                          is this machine ready? (sets up first)
#: make weak-scaling NODES=2            three models on 1 and 2 nodes: 8 minutes
#: make weak-scaling NODES=2 DRY_RUN=1  only the plan, and how long it takes
#: make strong-scaling NODES=2          with a constant global batch
#: make scaling COMMAND="..." NODES=2   your own program, if it prints a rate
#: make status                          what is done, running, failed
#: make summary                         all numbers of EXPERIMENT=weak_scaling
#: make diagnose EXPERIMENT=weak_scaling  why is efficiency below 1?
#: make predict TO=16,64                what would more ranks give?
#: make figures                         published figures, with your points
#: make audit FILE=study.csv            is a study consistent? without FILE, yours
#: make compare                         your numbers beside the published ones
#: make report                          one page with everything
#: make bundle                          one archive for a reviewer
#: make test UNIT=1                     the fast tests
#:
#: Often set: NODES=4 MODELS=resnet50,vgg16 MEASURE=report DATASET=fruit FORCE=1
#: All targets and variables: make help ALL=1
.PHONY: help
help: ## show the first commands; ALL=1: all targets and variables
	@colour=; [ ! -t 1 ] || [ "$$NO_COLOR" ] || [ "$$TERM" = dumb ] || colour=1; \
	  awk -v colour=$$colour -v all="$(call on,ALL)" -f docs/help.awk $(firstword $(MAKEFILE_LIST)) $(EXPERIMENT_FILES)

.PHONY: setup
setup: ## create the virtual environment, with Horovod compiled or from uv's cache (not with CONTAINER=); other targets do it first
	@$(SETUP) $(SET)

# A user's own program needs neither TensorFlow nor Horovod.
.PHONY: setup-launch
setup-launch:
	@$(SETUP) launch
scaling: setup-launch

doctor: ## is this machine ready? a table of checks, each with its fix

.PHONY: clean-env
clean-env: ## remove the virtual environment; results are kept
	@rm -rf $(VENV)

##@ Run

reproduce: ## measure every experiment of REPORT=001 that this machine can run; then write its figures, claims and comparison as one page (DRY_RUN=1: list them with times)
status: ## the points of all experiments: done, running (and how far), queued, failed; works from another terminal
wandb-sync: ## upload the W&B runs that were written offline

##@ Data (docs/data.md)

# These load TensorFlow on this machine, even if CONTAINER= is set.
data-check input-bench: SET := $(PACKAGES)

data-fetch: ## download, verify and unpack a dataset if its licence allows; otherwise say where to get it
data-check: ## list what a dataset's folder contains, what is missing or damaged, and differences from published counts
input-bench: ## is the input the limit? images/s of one core: decoding, resizing, the whole pipeline, the model

##@ Analyse

# The analysis needs only a few packages: they are installed if there is no environment yet.
.PHONY: setup-analysis
setup-analysis:
	@$(SETUP) analysis

summary: ## all numbers of the points of EXPERIMENT=weak_scaling, and their figures
figures: ## draw every figure: the published points, with your records on top
tables: ## recompute every derived number of the reports; show stated and computed side by side
audit: ## find inconsistencies in the reports and in your records, or in FILE=study.csv (STRICT=1: a finding is an error; ALL=1: those of the reports in full; ATLAS=1: in the published curves of docs/atlas.md)
table: ## show how FILE=, any table or log, is read, and write it as one row a point (COLUMNS= says what headers mean)
claims: ## the claims of the reports: their verdicts; ALL=1: with hypothesis, numbers and rule (docs/claims.md)
explain: ## explain why speedup by throughput and by wall time disagree: FILE=table.csv (default: report 000) or EXPERIMENT=fixed_work
predict: ## what would more ranks give? from FILE=curve.csv, EXPERIMENT=weak_scaling, or the published curves (TO=16,64,256)
proposal: ## one or two pages for an application for compute time, from records of EXPERIMENT= (THRESHOLD=0.75, IMAGES=, EPOCHS=, RUNS=)
compare: ## compare your records with the published numbers, or two folders of records or two tables: A=results-a B=results-b
history: ## did it get slower? the points of EXPERIMENT=weak_scaling over time, a verdict on each (STRICT=1: worse is an error)
reference: ## keep what this machine measures now as references/NAME.json (EXPERIMENT=: only that one; FORCE=1: replace)
check-reference: ## compare the newest launches with references/NAME.json; worse is an error
report: ## write one HTML page with everything, readable offline
bundle: ## pack records, figures and page into one archive for a reviewer (SCRUB=1: without host and user names)
bundle-check: ## check that an archive is unmodified since it was packed: FILE= (default: figures/bundle.tar.gz), SIGN_KEY=author.pub
evaluate: ## a reviewer's report on FILE=bundle.tar.gz: each claim reproduced or not (half an hour; ONLY=E1,E3: measure these experiments too)
release: ## build the archive to deposit, with checksums, in release/; list the steps that only a person can do

##@ Images (docs/images.md)

.PHONY: image
image: ## build the image kit:cpu with CONTAINER=docker, podman or buildah, or the first that works (VARIANT=mvapich2, VARIANT=cuda)
	@$(ANY_PYTHON) -m containers.build image "$${VARIANT:-cpu}"

.PHONY: sif
sif: ## build images/kit-cpu.sif with singularity only (VARIANT=; FROM_OCI=1: from the image that make image built)
	@$(ANY_PYTHON) -m containers.build sif "$${VARIANT:-cpu}" $(if $(call on,FROM_OCI),--from-oci)

.PHONY: test-images
test-images: setup-launch ## build all images, test what each is for, and print a table of results (VARIANT=: only that one; CONTAINER=docker or podman)
	@$(KIT) containers/verify.py $${VARIANT:+"$$VARIANT"}

.PHONY: test-gpu
test-gpu: setup-launch ## on a host with NVIDIA GPUs: driver, NCCL, allreduce, weak scaling, overhead, sampler; a table and a bundle to send (docs/clusters.md; CONTAINER=docker: in kit:cuda)
	@$(KIT) containers/verify_gpu.py

##@ Check

.PHONY: dev
dev:
	@$(SETUP) $(PACKAGES) dev

# Neither needs TensorFlow, Horovod or a compiler.
.PHONY: setup-lint
setup-lint:
	@$(SETUP) launch dev

.PHONY: lint
lint: setup-lint ## check format, style, types, and which package imports which
	@$(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy && $(VENV)/bin/lint-imports

.PHONY: format
format: setup-lint ## format the code
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

# Long end-to-end tests run if a file that they name differs from the last commit; in CI, from the one before.
# All files in one call, in the order of tests/conftest.py. Four at a time, because some only wait; each worker
# collects all tests.
# Tests that are compiled once, which includes rewriting their assertions, are read the next time.
.PHONY: test
test: dev ## run the tests; ALL=1: also long ones of what did not change; UNIT=1: only the fast ones; PYTEST_ARGS="..."
	@PYTEST_ADDOPTS="--dist loadfile $(if $(call on,UNIT),-n auto -m 'not end_to_end and not slow',-n 4 --no-loadscope-reorder) \
	  $(if $(call on,ALL),,--changed-since HEAD) $$PYTEST_ARGS" \
	  $(KIT) -m pytest $${JUNIT:+"--junitxml=$$JUNIT"}

.PHONY: test-cluster
test-cluster: setup ## open a shell on NODES=4 simulated hosts with ssh and Slurm, all on this machine (needs root)
	@$(KIT) -m tests.helpers.simcluster shell --hosts "$${NODES:-4}"

.PHONY: test-pythons
test-pythons: ## set up and run the fast tests with each Python of 3.11 to 3.13 that is on PATH, in .venv-3.11 and so on
	@.ci/pythons

.PHONY: test-horovod
test-horovod: ## run Horovod's own tests on two ranks, with each controller that it was compiled with: SOURCE=folder of its repository
	@$(SETUP) $(PACKAGES) horovod-tests
	@$(KIT) tests/helpers/horovod_tests.py "$$SOURCE"

.PHONY: lock
lock: setup-analysis ## resolve the groups in pyproject.toml again, into uv.lock
	@PATH="$$PATH:$(VENV)/uv/bin" requirements/lock.sh

.DEFAULT:
	$(error no target '$@'; $(or $(patsubst %,did you mean %?,$(filter $(subst _,-,$@),$(MEASURING) $(ANALYSING))),make help ALL=1 lists them))
