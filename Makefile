# Every target is a line that calls Python; what an experiment is stands in conf/experiment/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What a user may set on the command line, as make weak-scaling NODES=4 MODELS=resnet50,vgg16
DEVICE ?= cpu
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)

##? NODES=N           the largest number of nodes: measures the powers of two below it, and it
##? MODELS=a,b        files of conf/model
##? DEVICE=cpu|gpu    gpu: one rank a GPU, in an environment of its own
##? DATASET=NAME      a file of conf/dataset; DATA_DIR=FOLDER where it lies, or goes; URL=, CHECKSUM= of data-fetch
##? MEASURE=NAME      quick: minutes; report: 10 warm-up and 100 timed steps, 5 repeats
##? REPEATS=N         launches of each point
##? LAUNCHER=NAME, CONTAINER=NAME   files of conf/launcher (HOSTS=a,b,c for ssh), conf/container
##? SYSTEM=NAME       a file of conf/system: what a node has, what its Slurm wants to know; SPLIT=1: a job a point
##? IMAGE=NAME        what CONTAINER= runs, where it is not the image that make image or make sif built
##? ONLY=POINT        one point of the experiment, by the name that DRY_RUN=1 shows
##? FORCE=1           measure again what is measured: adds, replaces nothing
##? DRY_RUN=1         print the plan and the commands, start nothing
##? RESULTS=FOLDER    where the records go, and where the analysis reads them; results, unless given
##? ARGS="key=value"  anything else in conf/
##? PYTHON=COMMAND    which Python sets the environment up

# FORCE=0 means no.
on = $(filter-out 0 no false,$($(1)))

# A variable that no help line names is a typing mistake: it would change nothing, silently.
KNOWN := $(subst =,,$(shell grep -oh '##.*' $(firstword $(MAKEFILE_LIST)) | grep -oE '[A-Z][A-Z_]*='))
GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
ifneq ($(filter-out $(KNOWN),$(GIVEN)),)
$(error $(filter-out $(KNOWN),$(GIVEN)): no such variable; there are $(sort $(KNOWN)))
endif

DEVICES := cpu gpu
ifeq ($(filter $(DEVICE),$(DEVICES)),)
$(error DEVICE=$(DEVICE): allowed are $(DEVICES))
endif
PACKAGES := $(if $(filter gpu,$(DEVICE)),cuda,cpu)
# Where ranks run in an image, this machine needs neither TensorFlow nor Horovod, and no compiler. Over ssh it does: the
# launcher that reaches other hosts is Horovod's.
SET := $(if $(filter-out none,$(CONTAINER)),$(if $(filter ssh,$(LAUNCHER)),$(PACKAGES),launch),$(PACKAGES))
VENV := .venv$(if $(filter gpu,$(DEVICE)),-gpu)
KIT := $(VENV)/bin/python

RECORDS := $(if $(RESULTS),--results "$(RESULTS)")

EXPERIMENT_FILES := $(wildcard conf/experiment/*.yaml)
EXPERIMENTS := $(subst _,-,$(notdir $(EXPERIMENT_FILES:.yaml=)))
OVERRIDES := device=$(DEVICE) $(if $(NODES),nodes=$(NODES)) $(if $(MODELS),model=$(MODELS)) \
  $(if $(DATASET),dataset=$(DATASET)) $(if $(MEASURE),measure=$(MEASURE)) $(if $(REPEATS),measure.repeats=$(REPEATS)) \
  $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") \
  $(if $(RESULTS),"results='$(RESULTS)'") $(if $(LAUNCHER),launcher=$(LAUNCHER)) \
  $(if $(HOSTS),"launcher.hosts=[$(HOSTS)]") $(if $(SYSTEM),system=$(SYSTEM)) $(if $(call on,SPLIT),launcher.split=true) $(if $(CONTAINER),container=$(CONTAINER)) \
  $(if $(IMAGE),"container.image='$(IMAGE)'") $(ARGS)

##@ Set up

.PHONY: help
help: ## this page
	@awk -f docs/help.awk $(firstword $(MAKEFILE_LIST)) $(EXPERIMENT_FILES)

.PHONY: setup
setup: ## virtual environment, Horovod compiled for it (not with CONTAINER=); every other target does this first
	@$(PYTHON) requirements/install.py $(SET) $(VENV)

.PHONY: doctor
doctor: setup ## is this machine ready? a table of checks, each with its mend
	@$(KIT) -m train.tools.doctor --device $(DEVICE) $(if $(NODES),--ranks $(NODES)) \
	  $(if $(CONTAINER),--container "$(CONTAINER)") $(if $(IMAGE),--image "$(IMAGE)")

.PHONY: clean-env
clean-env: ## remove the virtual environment; results stay
	@rm -rf $(VENV)

##@ Run

.PHONY: $(EXPERIMENTS)
$(EXPERIMENTS): setup
	@$(KIT) -m train.launch $(if $(call on,FORCE),--force) $(if $(call on,DRY_RUN),--dry-run) $(if $(ONLY),--only $(ONLY)) experiment=$(subst -,_,$@) $(OVERRIDES); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis summary $(subst -,_,$@) --draw $(RECORDS);) exit $$status

.PHONY: status
status: setup ## the points of all experiments: done, running, queued in Slurm, failed
	@$(KIT) -m train.launch.status "$(or $(RESULTS),results)"

.PHONY: wandb-sync
wandb-sync: setup ## upload the W&B runs that were written offline
	@$(KIT) -m train.tracking sync "$(or $(RESULTS),results)"

##@ Data (docs/data.md)

# These load TensorFlow on this machine, whatever else runs in a container.
data-check input-bench: SET := $(PACKAGES)

.PHONY: data-fetch
data-fetch: setup ## download, verify and unpack a dataset, where its licence allows; else where to get it
	@$(KIT) -m train.tools.data_fetch $(or $(DATASET),cifar10) "$(or $(DATA_DIR),data/$(or $(DATASET),cifar10))" \
	  $(if $(URL),--url "$(URL)") $(if $(CHECKSUM),--checksum $(CHECKSUM))

.PHONY: data-check
data-check: setup ## what a dataset's folder holds, what is missing or damaged, what differs from the published counts
	@$(KIT) -m train.tools.data_check dataset=$(or $(DATASET),cifar10) $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") $(ARGS)

.PHONY: input-bench
input-bench: setup ## is the input the limit? images/s of a core: decoding, resizing, the whole pipeline, the model
	@$(KIT) -m train.tools.input_bench device=$(DEVICE) $(if $(MODELS),model=$(MODELS)) $(if $(DATASET),dataset=$(DATASET)) \
	  $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") $(if $(RESULTS),"results='$(RESULTS)'") $(ARGS)

##@ Analyse

# The analysis needs only the light packages: they are set up where nothing else is there.
.PHONY: setup-analysis
setup-analysis:
	@$(PYTHON) requirements/install.py analysis $(VENV)

.PHONY: figures
figures: setup-analysis ## draw every figure: the published points, and one's own records over them
	@$(KIT) -m analysis draw $(RECORDS)

.PHONY: tables
tables: setup-analysis ## recompute every derived number of the reports; stated and computed side by side
	@$(KIT) -m analysis tables

.PHONY: audit
audit: setup-analysis ## what does not add up, in the reports and in one's own records; the reports' claims, judged (STRICT=1: a finding is an error)
	@$(KIT) -m analysis audit $(RESULTS) $(if $(call on,STRICT),--strict)

.PHONY: explain
explain: setup-analysis ## why speedup by throughput and by wall time disagree: FILE=table.csv or EXPERIMENT=fixed_work
	@$(KIT) -m analysis explain $(if $(EXPERIMENT),--experiment $(EXPERIMENT),$(or $(FILE),analysis/published/000_hacksa.csv)) $(RECORDS)

.PHONY: compare
compare: setup-analysis ## one's records beside the published numbers, or two folders of records: A=results-a B=results-b
	@$(KIT) -m analysis compare $(if $(A),A=$(A)) $(if $(B),B=$(B)) $(RECORDS)

.PHONY: report
report: setup-analysis ## one HTML page with everything, to read without a network
	@$(KIT) -m analysis report $(RECORDS)

.PHONY: bundle
bundle: setup-analysis ## records, figures and page in one archive for a reviewer (SCRUB=1: without host and user names)
	@$(KIT) -m analysis bundle $(if $(call on,SCRUB),--scrub) $(RECORDS)

##@ Images (docs/images.md)

##? VARIANT=NAME      of an image: cpu, mvapich2 or cuda; BASE=, TOOLKIT= the images it is built on
##? BUILD_OPTIONS="...", SIF_OPTIONS="..."   further options of `docker build`, `singularity build`

.PHONY: image
image: ## build the image kit:cpu, with docker, podman or buildah (VARIANT=mvapich2, VARIANT=cuda)
	@$(PYTHON) containers/build.py image $(or $(VARIANT),cpu)

.PHONY: sif
sif: ## build images/kit-cpu.sif with singularity alone (VARIANT=; FROM_OCI=1: from what make image built)
	@$(PYTHON) containers/build.py sif $(or $(VARIANT),cpu) $(if $(call on,FROM_OCI),--from-oci)

.PHONY: test-images
test-images: SET := launch
test-images: setup ## build all images, run what they are for, and print a table of what was shown (VARIANT=: that one, as it is)
	@$(KIT) containers/prove.py $(if $(VARIANT),--built $(VARIANT))

##@ Check

.PHONY: dev
dev:
	@$(PYTHON) requirements/install.py $(PACKAGES) $(VENV) --dev

.PHONY: lint
lint: dev ## format, style and types
	@$(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy

.PHONY: format
format: dev ## put the code in format
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

.PHONY: test
test: dev ## all tests; UNIT=1: those that take seconds alone; PYTEST_ARGS="..."
	@$(KIT) -m pytest -n auto $(if $(call on,UNIT),--dist loadfile) -m "not end_to_end $(if $(call on,UNIT),and not slow)" $(PYTEST_ARGS)
	@$(if $(call on,UNIT),,$(KIT) -m pytest -n 2 --dist loadfile -m end_to_end $(PYTEST_ARGS))

.PHONY: test-cluster
test-cluster: setup ## a shell on NODES=4 hosts of their own, with ssh and Slurm, all on this machine (needs root)
	@$(KIT) tests/helpers/simcluster.py shell --hosts $(or $(NODES),4)

.PHONY: lock
lock: ## resolve requirements/*.in again (needs uv)
	@cd requirements && ./lock.sh

.DEFAULT:
	@echo "no target '$@'. Experiments: $(EXPERIMENTS). Everything else: make help" >&2; exit 2
