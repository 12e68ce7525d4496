# SPDX-License-Identifier: Apache-2.0
# Takes the place of NCCL's src/device/Makefile: NCCL's own table of device functions, and our kernels
# for the CPU behind it. SOFTGPU is the directory of their sources, BUILDDIR is NCCL's.
include ../../makefiles/common.mk

objects := $(BUILDDIR)/obj/device
names := collectives kernels outside sendrecv
# NCCL's headers first: CUDA's directory may have those of another version.
flags := -I.. -I$(BUILDDIR)/include -I$(BUILDDIR)/obj/include -I../include -I../include/plugin \
	-I$(SOFTGPU) $(CXXFLAGS) -O2 -ftree-vectorize
built := $(names:%=$(objects)/%.o) $(objects)/host_table.o $(objects)/entries.o

$(objects)/manifest: $(built)
	echo $^ >$@

$(objects)/host_table.cc: generate.py
	mkdir -p $(objects)
	python3 generate.py $(objects) ''

# Each kernel NCCL may launch: what it is to do its arguments say.
$(objects)/entries.cc: $(objects)/host_table.cc
	echo '#include "device.h"' >$@
	echo 'void softgpu_kernel(const ncclDevKernelArgs *args);' >>$@
	sed -n 's/^__global__ \(void ncclDevKernel_[A-Za-z0-9_]*\)(\(.*\));$$/\1(\2 args) { softgpu_kernel(\&args.args); }/p' \
		$< >>$@

$(names:%=$(objects)/%.o): $(objects)/%.o: $(SOFTGPU)/%.cc $(wildcard $(SOFTGPU)/*.h $(SOFTGPU)/*.hh) $(objects)/host_table.cc
	$(CXX) $(flags) -c $< -o $@

$(objects)/host_table.o $(objects)/entries.o: %.o: %.cc
	$(CXX) $(flags) -c $< -o $@
