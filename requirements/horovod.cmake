# Less to compile, from the same sources: horovod-cmake.sh lets CMake include this after each project() of Horovod's.
# Reduction loops keep the -O3 of Horovod; the rest does not decide the speed of an exchange.
if(NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
    return() # that of its Gloo
endif()
set(REDUCTIONS half.cc collective_operations.cc gloo_operations.cc mpi_operations.cc adasum_mpi.cc
    adasum_mpi_operations.cc adasum_gpu_operations.cc allreduce.cc allreduce_local.cc)
set(ONCE_A_RUN mpi_ops.cc xla_mpi_ops.cc gaussian_process.cc bayesian_optimization.cc) # operators and autotuner

function(compile_less)
    get_target_property(horovod tensorflow SOURCES)
    get_target_property(gloo compatible17_gloo SOURCES)
    if(NOT HAVE_CUDA)
        list(FILTER horovod EXCLUDE REGEX "/xla_mpi_ops\\.cc$") # nothing but includes, without GPUs
    endif()
    list(REVERSE horovod) # its longest files first
    # Gloo in the same target: two targets would be compiled one after the other.
    get_target_property(libraries tensorflow LINK_LIBRARIES)
    list(REMOVE_ITEM libraries compatible17_gloo)
    set_target_properties(tensorflow PROPERTIES LINK_LIBRARIES "${libraries}" SOURCES "${horovod};${gloo}")
    # A file of its own for what has options of its own; the others become two.
    target_compile_options(tensorflow PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O2>)
    set_target_properties(tensorflow PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set(scope TARGET_DIRECTORY tensorflow)
    set_source_files_properties(${horovod} ${scope} PROPERTIES UNITY_GROUP horovod)
    set_source_files_properties(${gloo} ${scope} PROPERTIES UNITY_GROUP gloo)
    foreach(source ${horovod} ${gloo})
        get_filename_component(name ${source} NAME)
        if(name IN_LIST REDUCTIONS)
            set_source_files_properties(${source} ${scope} PROPERTIES COMPILE_OPTIONS -O3)
        elseif(name IN_LIST ONCE_A_RUN)
            set_source_files_properties(${source} ${scope} PROPERTIES COMPILE_OPTIONS -O1)
        endif()
    endforeach()
endfunction()
cmake_language(DEFER CALL compile_less)
