# Every target is one line that calls Python. The experiments are defined in conf/experiment/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What a user may set on the command line, for example: make weak-scaling NODES=4 MODELS=resnet50,vgg16
DEVICE ?= cpu
# An environment that exists is completed by its own Python: the locks depend on its version.
PYTHON ?= $(shell command -v $(VENV)/bin/python || command -v python3.11 || command -v python3 || echo python3)

##? NODES=N           the largest number of nodes: measures N and the powers of two below it
##? MODELS=a,b        files of conf/model
##? DEVICE=cpu|gpu    gpu: one rank per GPU, in a separate environment
##? DATASET=NAME      a file of conf/dataset; DATA_DIR=FOLDER its folder; URL=, CHECKSUM= for data-fetch
##? MEASURE=NAME      quick: minutes; report: for a paper, hours
##? REPEATS=N         launches of each point
##? LAUNCHER=NAME, CONTAINER=NAME   files of conf/launcher (HOSTS=a,b,c for ssh), conf/container
##? SYSTEM=NAME       a file of conf/system: describes the nodes and their Slurm; SPLIT=1: one job per point
##? IMAGE=NAME        image for CONTAINER=, if not the one built by make image or make sif
##? ONLY=A,B          these points of the experiment, by their names as shown with DRY_RUN=1
##? FORCE=1           repeat measurements that are complete: adds, replaces nothing
##? DRY_RUN=1         print the plan and the commands, start nothing
##? RESULTS=FOLDER    where records are written, and where the analysis reads them (default: results)
##? ARGS="key=value"  any other key of conf/
##? PYTHON=COMMAND    the Python that creates the environment

# FORCE=0 means no.
on = $(filter-out 0 no false,$($(1)))

# A variable that no help line names is a typing error: it would silently have no effect.
KNOWN := $(subst =,,$(shell grep -oh '##.*' $(firstword $(MAKEFILE_LIST)) | grep -oE '[A-Z][A-Z_]*='))
GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
ifneq ($(filter-out $(KNOWN),$(GIVEN)),)
$(error $(filter-out $(KNOWN),$(GIVEN)): no such variable; allowed are $(sort $(KNOWN)))
endif

# Lists are separated by commas, by spaces, or by both.
comma := ,
space := $() $()
list = $(subst $(space),$(comma),$(strip $(subst $(comma),$(space),$(1))))
override HOSTS := $(call list,$(HOSTS))
override MODELS := $(call list,$(MODELS))
override ONLY := $(call list,$(ONLY))
override TO := $(call list,$(TO))

DEVICES := cpu gpu
ifeq ($(filter $(DEVICE),$(DEVICES)),)
$(error DEVICE=$(DEVICE): allowed are $(DEVICES))
endif
PACKAGES := $(if $(filter gpu,$(DEVICE)),cuda,cpu)
# If ranks run in a container, this machine needs neither TensorFlow nor Horovod, and no compiler. LAUNCHER=ssh is the
# exception, because it uses Horovod's launcher to reach other hosts.
SET := $(if $(filter-out none,$(CONTAINER)),$(if $(filter ssh,$(LAUNCHER)),$(PACKAGES),launch),$(PACKAGES))
VENV := .venv$(if $(filter gpu,$(DEVICE)),-gpu)
KIT := $(VENV)/bin/python

RECORDS := $(if $(RESULTS),--results "$(RESULTS)")

EXPERIMENT_FILES := $(wildcard conf/experiment/*.yaml)
EXPERIMENTS := $(filter-out diagnose tune timeline,$(subst _,-,$(notdir $(EXPERIMENT_FILES:.yaml=))))
OVERRIDES := device=$(DEVICE) $(if $(NODES),nodes=$(NODES)) $(if $(MODELS),model=$(MODELS)) \
  $(if $(DATASET),dataset=$(DATASET)) $(if $(MEASURE),measure=$(MEASURE)) $(if $(REPEATS),measure.repeats=$(REPEATS)) \
  $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") \
  $(if $(RESULTS),"results='$(RESULTS)'") $(if $(LAUNCHER),launcher=$(LAUNCHER)) \
  $(if $(HOSTS),"launcher.hosts=[$(HOSTS)]") $(if $(SYSTEM),system=$(SYSTEM)) $(if $(call on,SPLIT),launcher.split=true) $(if $(CONTAINER),container=$(CONTAINER)) \
  $(if $(IMAGE),"container.image='$(IMAGE)'") $(ARGS)

##@ Set up

.PHONY: help
help: ## show this page
	@awk -f docs/help.awk $(firstword $(MAKEFILE_LIST)) $(EXPERIMENT_FILES)

.PHONY: setup
setup: ## create the virtual environment, with Horovod compiled or from ~/.cache (not with CONTAINER=); other targets do it first
	@$(PYTHON) requirements/install.py $(SET) $(VENV)

.PHONY: doctor
doctor: setup ## is this machine ready? a table of checks, each with its fix
	@$(KIT) -m train.tools.doctor --device $(DEVICE) $(if $(NODES),--ranks $(NODES)) \
	  $(if $(CONTAINER),--container "$(CONTAINER)") $(if $(IMAGE),--image "$(IMAGE)")

.PHONY: clean-env
clean-env: ## remove the virtual environment; results are kept
	@rm -rf $(VENV)

##@ Run

LAUNCH = $(KIT) -m train.launch $(if $(call on,FORCE),--force) $(if $(call on,DRY_RUN),--dry-run) $(if $(ONLY),--only $(ONLY)) experiment=$(subst -,_,$@) $(OVERRIDES)

.PHONY: $(EXPERIMENTS)
$(EXPERIMENTS): setup
	@$(LAUNCH); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis summary $(subst -,_,$@) --draw $(RECORDS);) exit $$status

# EXPERIMENT=NAME: over the records of that experiment, without measuring.
.PHONY: diagnose
diagnose: $(if $(EXPERIMENT),setup-analysis,setup)
	@$(if $(EXPERIMENT),:,$(LAUNCH)); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis diagnose $(or $(EXPERIMENT),diagnose) $(if $(MODELS),--models $(MODELS)) --draw $(RECORDS)$(if $(EXPERIMENT), || status=$$?);) exit $$status

##? WRITE=NAME        of tune: write the fastest settings into conf/system/NAME.yaml
.PHONY: tune
tune: setup
	@$(if $(WRITE),$(KIT) -m analysis tune --dry-run --write "$(WRITE)" || exit;) $(LAUNCH); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis tune $(if $(MODELS),--models $(MODELS)) $(if $(WRITE),--write "$(WRITE)") $(RECORDS) || status=1;) exit $$status

.PHONY: timeline
timeline: setup
	@$(LAUNCH); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis timeline $(if $(MODELS),--models $(MODELS)) $(RECORDS) || status=1;) exit $$status

##? REPORT=001        of reproduce: 000 to 004

.PHONY: reproduce
reproduce: setup ## measure every experiment of REPORT=001 that this machine can run; then write its figures, claims and comparison as one page (DRY_RUN=1: list them with times)
	@$(KIT) -m train.launch.reproduce $(if $(call on,FORCE),--force) $(if $(call on,DRY_RUN),--dry-run) "$(REPORT)" $(OVERRIDES); \
	  status=$$?; $(if $(call on,DRY_RUN)$(filter slurm,$(LAUNCHER)),,[ $$status = 2 ] || $(KIT) -m analysis report --report "$(REPORT)" --out figures/reproduce-$(REPORT).html $(RECORDS);) exit $$status

.PHONY: status
status: setup ## the points of all experiments: done, running (and how far), queued in Slurm, failed; works from another terminal
	@$(KIT) -m train.launch.status "$(or $(RESULTS),results)"

.PHONY: wandb-sync
wandb-sync: setup ## upload the W&B runs that were written offline
	@$(KIT) -m train.tracking sync "$(or $(RESULTS),results)"

##@ Data (docs/data.md)

# These load TensorFlow on this machine, even if CONTAINER= is set.
data-check input-bench: SET := $(PACKAGES)

.PHONY: data-fetch
data-fetch: setup ## download, verify and unpack a dataset if its licence allows; otherwise say where to get it
	@$(KIT) -m train.tools.data_fetch $(or $(DATASET),cifar10) "$(or $(DATA_DIR),data/$(or $(DATASET),cifar10))" \
	  $(if $(URL),--url "$(URL)") $(if $(CHECKSUM),--checksum $(CHECKSUM))

.PHONY: data-check
data-check: setup ## list what a dataset's folder contains, what is missing or damaged, and differences from published counts
	@$(KIT) -m train.tools.data_check dataset=$(or $(DATASET),cifar10) $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") $(ARGS)

.PHONY: input-bench
input-bench: setup ## is the input the limit? images/s of one core: decoding, resizing, the whole pipeline, the model
	@$(KIT) -m train.tools.input_bench device=$(DEVICE) $(if $(MODELS),model=$(MODELS)) $(if $(DATASET),dataset=$(DATASET)) \
	  $(if $(DATA_DIR),"dataset.data_dir='$(DATA_DIR)'") $(if $(RESULTS),"results='$(RESULTS)'") $(ARGS)

##@ Analyse

##? SIGN_KEY=KEY      an SSH key that signs the archive of make bundle; of make bundle-check its public part

# The analysis needs only a few packages: they are installed if there is no environment yet.
.PHONY: setup-analysis
setup-analysis:
	@$(PYTHON) requirements/install.py analysis $(VENV)

.PHONY: figures
figures: setup-analysis ## draw every figure: the published points, with your records on top
	@$(KIT) -m analysis draw $(RECORDS)

.PHONY: tables
tables: setup-analysis ## recompute every derived number of the reports; show stated and computed side by side
	@$(KIT) -m analysis tables

.PHONY: audit
audit: setup-analysis ## find inconsistencies in the reports and in your records, or in FILE=study.csv; judge the reports' claims (STRICT=1: a finding is an error)
	@$(KIT) -m analysis audit $(if $(FILE),--file "$(FILE)",$(RESULTS)) $(if $(call on,STRICT),--strict)

.PHONY: claims
claims: setup-analysis ## judge the claims of the reports: hypothesis, data, rule and verdict of each (docs/claims.md)
	@$(KIT) -m analysis claims $(RECORDS)

.PHONY: explain
explain: setup-analysis ## explain why speedup by throughput and by wall time disagree: FILE=table.csv (default: report 000) or EXPERIMENT=fixed_work
	@$(KIT) -m analysis explain $(if $(EXPERIMENT),--experiment $(EXPERIMENT),$(or $(FILE),analysis/published/000_hacksa.csv)) $(RECORDS)

##? TO=N,N            of predict: numbers of ranks (default: 16,64,256); GLOBAL_BATCH=N keeps that batch; UP_TO=N uses smaller points only
##? EXCHANGE=NAME     of predict FILE=: allreduce or server, if it is known how gradients were exchanged
##? IMAGES=N          of predict: images of a job, whose wall time it predicts; EPOCHS=N passes over them, PRICE=P of a node hour

.PHONY: predict
predict: setup-analysis ## what would more ranks give? from FILE=curve.csv, EXPERIMENT=weak_scaling, or the published curves (TO=16,64,256)
	@$(KIT) -m analysis predict $(if $(EXPERIMENT),--experiment $(EXPERIMENT),$(if $(FILE),--file "$(FILE)" $(if $(EXCHANGE),--exchange $(EXCHANGE)))) $(if $(MODELS),--models $(MODELS)) $(if $(TO),--to $(TO)) $(if $(UP_TO),--up-to $(UP_TO)) \
	  $(if $(GLOBAL_BATCH),--global-batch $(GLOBAL_BATCH)) $(if $(IMAGES),--images $(IMAGES)) $(if $(EPOCHS),--epochs $(EPOCHS)) \
	  $(if $(PRICE),--price $(PRICE)) --draw $(RECORDS)

.PHONY: compare
compare: setup-analysis ## compare your records with the published numbers, or two folders of records: A=results-a B=results-b
	@$(KIT) -m analysis compare $(if $(A),A=$(A)) $(if $(B),B=$(B)) $(RECORDS)

##? WITHIN=0.05       of history and references: how far off still counts as the same; SINCE=2026-11-01 leaves out older launches
##? NAME=NAME         of a reference, kept as references/NAME.json

.PHONY: history
history: setup-analysis ## did it get slower? the points of EXPERIMENT=weak_scaling over time, a verdict on each (STRICT=1: slower is an error)
	@$(KIT) -m analysis history $(or $(EXPERIMENT),weak_scaling) $(if $(SINCE),--since $(SINCE)) $(if $(WITHIN),--within $(WITHIN)) \
	  $(if $(call on,STRICT),--strict) --draw $(RECORDS)

.PHONY: reference
reference: setup-analysis ## keep what this machine measures now as references/NAME.json (EXPERIMENT=: only that one; FORCE=1: replace)
	@$(KIT) -m analysis reference "$(NAME)" $(if $(EXPERIMENT),--experiment $(EXPERIMENT)) $(if $(SINCE),--since $(SINCE)) \
	  $(if $(WITHIN),--within $(WITHIN)) $(if $(call on,FORCE),--force) $(RECORDS)

.PHONY: check-reference
check-reference: setup-analysis ## compare the newest launches with references/NAME.json; slower is an error
	@$(KIT) -m analysis check-reference "$(NAME)" $(if $(SINCE),--since $(SINCE)) $(if $(WITHIN),--within $(WITHIN)) $(RECORDS)

.PHONY: report
report: setup-analysis ## write one HTML page with everything, readable offline
	@$(KIT) -m analysis report $(RECORDS)

.PHONY: bundle
bundle: setup-analysis ## pack records, figures and page into one archive for a reviewer (SCRUB=1: without host and user names)
	@$(KIT) -m analysis bundle $(if $(call on,SCRUB),--scrub) $(if $(SIGN_KEY),--sign-key "$(SIGN_KEY)") $(RECORDS)

.PHONY: bundle-check
bundle-check: setup-analysis ## check that an archive is what its author packed: FILE= (default: figures/bundle.tar.gz), SIGN_KEY=author.pub
	@$(KIT) -m analysis bundle-check "$(or $(FILE),figures/bundle.tar.gz)" $(if $(SIGN_KEY),--sign-key "$(SIGN_KEY)")

##@ Images (docs/images.md)

##? VARIANT=NAME      of an image: cpu, mvapich2 or cuda; BASE=, TOOLKIT= the images that it is built on
##? BUILD_OPTIONS="...", SIF_OPTIONS="..."   more options for `docker build`, `singularity build`

.PHONY: image
image: ## build the image kit:cpu with CONTAINER=docker, podman or buildah, or the first that works (VARIANT=mvapich2, VARIANT=cuda)
	@$(PYTHON) containers/build.py image $(or $(VARIANT),cpu)

.PHONY: sif
sif: ## build images/kit-cpu.sif with singularity only (VARIANT=; FROM_OCI=1: from the image that make image built)
	@$(PYTHON) containers/build.py sif $(or $(VARIANT),cpu) $(if $(call on,FROM_OCI),--from-oci)

.PHONY: test-images
test-images: SET := launch
test-images: setup ## build all images, test what each is for, and print a table of results (VARIANT=: only that one; CONTAINER=docker or podman)
	@$(KIT) containers/verify.py $(VARIANT)

.PHONY: test-gpu
test-gpu: SET := launch
test-gpu: setup ## on a host with NVIDIA GPUs: driver, NCCL, allreduce, weak scaling, overhead, sampler; a table and a bundle to send (docs/gpu.md; CONTAINER=docker: in kit:cuda)
	@$(KIT) containers/verify_gpu.py

##@ Check

.PHONY: dev
dev:
	@$(PYTHON) requirements/install.py $(PACKAGES) $(VENV) --dev

.PHONY: lint
lint: dev ## check format, style, types, and which package imports which
	@$(VENV)/bin/ruff format --check . && $(VENV)/bin/ruff check . && $(VENV)/bin/mypy && $(VENV)/bin/lint-imports

.PHONY: format
format: dev ## format the code
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

# All files in one call, the longest first (tests/conftest.py). Four at a time on two cores, because some wait for clocks.
# Tests that are compiled once, which includes rewriting their assertions, are read the next time.
.PHONY: test
test: dev ## run all tests; UNIT=1: only the fast ones; PYTEST_ARGS="..."
	@env -u PYTHONDONTWRITEBYTECODE $(KIT) -m pytest --dist loadfile $(if $(call on,UNIT),-n auto -m "not end_to_end and not slow",-n 4 --no-loadscope-reorder) $(PYTEST_ARGS)

.PHONY: test-cluster
test-cluster: setup ## open a shell on NODES=4 simulated hosts with ssh and Slurm, all on this machine (needs root)
	@$(KIT) tests/helpers/simcluster.py shell --hosts $(or $(NODES),4)

.PHONY: lock
lock: ## resolve requirements/*.in again (needs uv)
	@cd requirements && ./lock.sh

.DEFAULT:
	@echo "no target '$@'. Experiments: $(EXPERIMENTS). Everything else: make help" >&2; exit 2
