# CMake package for authors of plugin execution providers. Point CMake at it with
#
#   cmake -S . -B build -Dephost_DIR=$(python -c "import ephost; print(ephost.get_cmake_dir())")
#
# and write
#
#   find_package(ephost CONFIG REQUIRED)
#   ephost_add_plugin(my_ep my_ep.c)
#
# It defines
#   ephost::headers                      an interface target with the include directory of ephost/ephost.h
#   ephost_add_plugin(NAME SOURCES...)   a plugin library, as below
#
# The same files serve the source tree and an installed wheel: in both, include/ lies beside this directory.
get_filename_component(ephost_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
if(NOT EXISTS "${ephost_INCLUDE_DIR}/ephost/ephost.h")
  set(ephost_FOUND FALSE)
  set(ephost_NOT_FOUND_MESSAGE "no ephost/ephost.h in ${ephost_INCLUDE_DIR}")
  return()
endif()

if(NOT TARGET ephost::headers)
  add_library(ephost::headers INTERFACE IMPORTED)
  set_target_properties(ephost::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${ephost_INCLUDE_DIR}")
endif()

# The lists of exported symbols, one for each kind of linker, lie beside this file.
set(_ephost_SYMBOLS_DIR "${CMAKE_CURRENT_LIST_DIR}")

# Adds a plugin library NAME: a MODULE library of the sources that sees the headers and exports CreateEpFactories
# and ReleaseEpFactory only, whatever visibility its other functions and the static libraries linked into it have.
# It is an ordinary target: link to it, set its properties, install it as any other.
function(ephost_add_plugin name)
  if(NOT ARGN)
    message(FATAL_ERROR "ephost_add_plugin(${name}): no sources given")
  endif()
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE ephost::headers)
  set_target_properties(${name} PROPERTIES
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(WIN32)
    target_sources(${name} PRIVATE "${_ephost_SYMBOLS_DIR}/plugin.def")
    set(symbols "${_ephost_SYMBOLS_DIR}/plugin.def")
    set_target_properties(${name} PROPERTIES PREFIX "") # which MinGW's would be lib
  elseif(APPLE)
    set(symbols "${_ephost_SYMBOLS_DIR}/plugin.exports")
    target_link_options(${name} PRIVATE "LINKER:-exported_symbols_list,${symbols}")
    set_target_properties(${name} PROPERTIES SUFFIX ".dylib")
  else()
    set(symbols "${_ephost_SYMBOLS_DIR}/plugin.map")
    target_link_options(${name} PRIVATE "LINKER:--version-script=${symbols}")
  endif()
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${symbols}")
endfunction()
