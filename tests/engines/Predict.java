import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.tensorflow.Result;
import org.tensorflow.SavedModelBundle;
import org.tensorflow.Tensor;
import org.tensorflow.ndarray.NdArrays;
import org.tensorflow.types.TFloat32;
import org.tensorflow.types.TString;

/**
 * Answers a PredictRequest from an export: Predict EXPORT DESCRIPTORS REQUEST RESPONSE, all files.
 *
 * <p>The messages are those of serving/predict.proto; DESCRIPTORS is that file compiled.
 */
public final class Predict {
  public static void main(String[] args) throws Exception {
    List<FileDescriptor> files = new ArrayList<>();
    for (FileDescriptorProto one :
        FileDescriptorSet.parseFrom(Files.readAllBytes(Path.of(args[1]))).getFileList()) {
      files.add(FileDescriptor.buildFrom(one, files.toArray(new FileDescriptor[0])));
    }
    FileDescriptor protocol = files.get(files.size() - 1);
    Message request =
        DynamicMessage.parseFrom(
            protocol.findMessageTypeByName("PredictRequest"), Files.readAllBytes(Path.of(args[2])));
    Message spec = (Message) get(request, "model_spec");
    try (SavedModelBundle model = SavedModelBundle.load(args[0], "serve")) {
      Map<String, Tensor> inputs = new HashMap<>();
      for (Object one : (List<?>) get(request, "inputs")) {
        Message entry = (Message) one;
        List<?> texts = (List<?>) get((Message) get(entry, "value"), "string_val");
        String[] words =
            texts.stream().map(text -> ((ByteString) text).toStringUtf8()).toArray(String[]::new);
        inputs.put((String) get(entry, "key"), TString.tensorOf(NdArrays.vectorOfObjects(words)));
      }
      try (Result result = model.function((String) get(spec, "signature_name")).call(inputs)) {
        Descriptor type = protocol.findMessageTypeByName("PredictResponse");
        FieldDescriptor outputs = type.findFieldByName("outputs");
        DynamicMessage.Builder response = DynamicMessage.newBuilder(type);
        for (Map.Entry<String, Tensor> output : result) {
          Descriptor entry = outputs.getMessageType();
          FieldDescriptor value = entry.findFieldByName("value");
          DynamicMessage.Builder tensor = DynamicMessage.newBuilder(value.getMessageType());
          FieldDescriptor floats = value.getMessageType().findFieldByName("float_val");
          ((TFloat32) output.getValue())
              .scalars()
              .forEach(number -> tensor.addRepeatedField(floats, number.getFloat()));
          response.addRepeatedField(
              outputs,
              DynamicMessage.newBuilder(entry)
                  .setField(entry.findFieldByName("key"), output.getKey())
                  .setField(value, tensor.build())
                  .build());
        }
        Files.write(Path.of(args[3]), response.build().toByteArray());
      }
    }
  }

  private static Object get(Message message, String field) {
    return message.getField(message.getDescriptorForType().findFieldByName(field));
  }
}
