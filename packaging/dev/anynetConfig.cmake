# SPDX-License-Identifier: Apache-2.0
# find_package(anynet) defines the target anynet::headers.
include(${CMAKE_CURRENT_LIST_DIR}/anynetTargets.cmake)
