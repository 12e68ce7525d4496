# SPDX-License-Identifier: Apache-2.0
# Run by cpack once the files of a package are together. rpm sets back what is younger than the commit,
# and leaves what is older: what was built before it, here and not elsewhere. So all of them are younger.
file(GLOB_RECURSE files LIST_DIRECTORIES false "${CPACK_TEMPORARY_DIRECTORY}/*")
file(TOUCH_NOCREATE ${files})
