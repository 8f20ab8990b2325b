import java.nio.file.Path;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;

/** A node on the loopback interface. Arguments: its home, its HTTP port, its transport port. */
public class Elasticsearch8Node {
  public static void main(String[] arguments) throws Exception {
    LogConfigurator.configureESLogging();
    Settings settings =
        Settings.builder()
            .put("path.home", arguments[0])
            .put("node.name", "test")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    Path configuration = Path.of(arguments[0], "config");
    new Node(
            InternalSettingsPreparer.prepareEnvironment(
                settings, Map.of(), configuration, () -> "test"))
        .start();
    Thread.currentThread().join();
  }
}
